// A page opened as a file may not start a worker: run the search's script in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.inside = frame.contentWindow;
      this.waiting = [];
      this.inside.postBack = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const write = this.inside.document;
      write.open();
      write.write("<script>window.postMessage = (data) => window.postBack(data);</script>");
      write.write(`<script src="${url}"></script>`);
      write.close();
      frame.addEventListener("load", () => {
        this.ready = true;
        this.waiting.splice(0).forEach((data) => this.postMessage(data));
      });
    }
    postMessage(data) {
      if (!this.ready) { this.waiting.push(data); return; }
      this.inside.dispatchEvent(new MessageEvent("message", { data }));
    }
    terminate() {}
  };
}
