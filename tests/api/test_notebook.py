"""What a notebook shows of diagnostics: nothing. tests/report has what it shows of others."""

import privalue as pv
from api.conftest import PEOPLE


def test_diagnostics_show_nothing(study):
    diagnostics = pv.inspect(study, PEOPLE)
    assert diagnostics._repr_html_() == repr(diagnostics)
    assert repr(diagnostics) == "Diagnostics(private, mechanism='dp-ssp', states=4)"
