"""Build the documentation as a static site: Markdown in, plain files out, nothing from the network.

| module       | its one job                                                            |
|--------------|------------------------------------------------------------------------|
| `navigation` | which page follows which                                               |
| `typography` | subscripts, powers and signs of plain text; TeX to MathML              |
| `markup`     | one Markdown file to HTML, with its links, headings and words          |
| `site`       | all of them into the template; refuses whatever a reader would trip on |

`make docs` builds it; why it is made like this: docs/decisions/0012-documentation.md.
"""
