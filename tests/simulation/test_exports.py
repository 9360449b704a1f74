import privalue.simulation


def test_exports_are_there_and_sorted():
    names = privalue.simulation.__all__
    assert all(hasattr(privalue.simulation, name) for name in names)
    assert len(set(names)) == len(names)


def test_nothing_optional_is_imported():
    import subprocess
    import sys

    code = (
        "import sys, privalue.simulation; "
        "sys.exit(any(m in sys.modules for m in ('gymnasium', 'gym', 'icu_sepsis', 'pygame')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
