"""Prepare the documentation: Markdown in, a site that needs no network out.

| module              | its one job                                                     |
|---------------------|-----------------------------------------------------------------|
| `hooks`             | what MkDocs calls while it builds the site                      |
| `checks`            | what a reader would stumble over in a page's Markdown           |
| `typography`        | subscripts, powers and signs of plain text; TeX to MathML       |
| `offline`           | the search and the theme without a single outside address       |
| `samples`           | a sample report, plan and private page, of made-up people       |
| `shown`             | programs and the notebook as pages                              |
| `references`        | the pages that are made from the program                        |
| `pictures`          | pictures of the pages that people read                          |
| `notebook`          | the example notebook, run anew                                  |

`make docs` builds the site, with MkDocs.
"""

from pathlib import Path

ROOT = Path(__file__).parents[2]
