"""The list of equivalent mutants names mutants of the code as it is now, each once and with its reason."""

from __future__ import annotations

from tools.arrows import ROOT
from tools.mutation.changes import mutants_of


def test_each_entry_is_one_mutant_of_today_with_a_reason():
    for line in (ROOT / "tools" / "equivalent_mutants.txt").read_text().splitlines():
        key, _, reason = line.partition(" # ")
        file = key.split(" | ")[0]
        assert [mutant.key for mutant in mutants_of(file, (ROOT / file).read_text())].count(key) == 1, key
        assert reason.strip(), key


def test_changes_of_the_same_text_have_names_of_their_own():
    text = "def f(a, b):\n    return a < b or b < a or a < b\n\n\ndef g(a, b):\n    return a < b\n"
    names = [mutant.key for mutant in mutants_of("x.py", text)]
    assert len(set(names)) == len(names)
    assert "x.py | f | comparison | a < b | 2" in names
    assert "x.py | g | comparison | a < b" in names


def test_a_mutant_is_named_after_the_innermost_function_around_it():
    text = (
        "def f(a=1):\n    class C:\n        at = 2\n\n        def m(self):\n            return 3\n\n"
        "    def g(b=4):\n        return 5\n\n    return 6\n"
    )
    found = {mutant.before: mutant.function for mutant in mutants_of("x.py", text) if mutant.change == "constant"}
    assert found == {"1": "", "2": "f", "3": "f.C.m", "4": "f", "5": "f.g", "6": "f"}
