"""Partial evaluation of programs whose references lead back to themselves: it ends, and what is
left means the same.
"""

from __future__ import annotations

import pytest

import relayvm
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.passes import run_passes
from relayvm.compiler.steps import split_steps

FIRST = "let %r = ref(fn (%x: int32) -> int32 { 0 });"
FACTORIAL = """let %f = fn (%x: int32) -> int32 {
  if (%x == 0) { 1 } else { let %g = ref_read(%r); %x * %g(%x - 1) }
};"""

# The body of `@main(%n: int32)`.
PROGRAMS = {
    "a function that reads itself": f"{FIRST} {FACTORIAL} ref_write(%r, %f); %f(%n)",
    "one whose argument is known": f"{FIRST} {FACTORIAL} ref_write(%r, %f); %f(6)",
    "one that is called with more and more": f"""{FIRST}
      let %f = fn (%x: int32) -> int32 {{
        if (%x > %n + 9) {{ %x }} else {{ let %g = ref_read(%r); %g(%x + 1) }}
      }};
      ref_write(%r, %f);
      %f(1)""",
    "one that is called with more and more that is known": f"""{FIRST}
      let %f = fn (%x: int32) -> int32 {{
        let %g = ref_read(%r);
        if (%x == 700) {{ %n }} else {{ %g(%x + 1) }}
      }};
      ref_write(%r, %f);
      %f(1)""",
    "in a tuple": """let %r = ref((0, fn (%x: int32) -> int32 { 0 }));
      let %f = fn (%x: int32) -> int32 {
        if (%x == 0) { 1 } else { let %g = ref_read(%r).1; %x * %g(%x - 1) }
      };
      ref_write(%r, (1, %f));
      let %g = ref_read(%r).1;
      %g(%n) + ref_read(%r).0""",
    "in a constructor": """let %r = ref(None);
      let %f = fn (%x: int32) -> int32 {
        if (%x == 0) { 1 } else { match (ref_read(%r)) { None => 7, Some(%g) => %x * %g(%x - 1) } }
      };
      ref_write(%r, Some(%f));
      %f(%n)""",
    "two functions by turns": """let %even = ref(fn (%x: int32) -> bool { False });
      let %odd = ref(fn (%x: int32) -> bool { False });
      let %e = fn (%x: int32) -> bool {
        if (%x == 0) { True } else { let %g = ref_read(%odd); %g(%x - 1) }
      };
      let %o = fn (%x: int32) -> bool {
        if (%x == 0) { False } else { let %g = ref_read(%even); %g(%x - 1) }
      };
      ref_write(%even, %e);
      ref_write(%odd, %o);
      let %h = ref_read(%even);
      (%h(%n), %e, %o).0""",
    "a reference to the reference": f"""{FIRST} let %rr = ref(%r);
      let %f = fn (%x: int32) -> int32 {{
        if (%x == 0) {{ 1 }} else {{ let %g = ref_read(ref_read(%rr)); %x * %g(%x - 1) }}
      }};
      ref_write(%r, %f);
      %f(%n)""",
    "what was held first leads to another ring": f"""let %a = ref(fn (%x: int32) -> int32 {{ %x }});
      let %r = ref(fn (%x: int32) -> int32 {{ let %g = ref_read(%a); %g(%x) }});
      {FACTORIAL}
      ref_write(%a, fn (%x: int32) -> int32 {{ let %g = ref_read(%r); %g(%x) + 1 }});
      ref_write(%r, %f);
      let %h = ref_read(%a);
      %h(%n)""",
    "a later reference whose function reads an earlier one": """
      let %a = ref(fn (%x: int32) -> int32 { %x * 3 });
      let %b = ref(fn (%x: int32) -> int32 { let %g = ref_read(%a); %g(%x) });
      let %h = if (%n == 0) { ref_read(%a) } else { ref_read(%b) };
      %h(%n)""",
}


def left_of(text: str) -> relayvm.Module:
    return run_passes(
        relayvm.parse(text), split_steps("to_anf,partial_evaluate,infer_types"), verify=True
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_references_that_lead_back_end_and_mean_the_same(name: str) -> None:
    text = f"def @main(%n: int32) {{ {PROGRAMS[name]} }}"
    module, left = relayvm.parse(text), left_of(text)
    for n in (0, 5):
        assert str(Evaluator(left).call("main", [n])) == str(Evaluator(module).call("main", [n]))


def test_only_the_reference_that_opens_a_ring_is_written_later() -> None:
    body = PROGRAMS["two functions by turns"]
    left = str(left_of(f"def @main(%n: int32) {{ {body} }}"))
    assert left.count("= ref(") == 2 and left.count("ref_write(") == 1


def test_many_references_in_a_ring_cost_no_more_than_they_are() -> None:
    """Each function reads the next reference, the last one the first."""
    count = 150
    made = "".join(f"let %r{i} = ref(fn (%x: int32) -> int32 {{ %x }});\n" for i in range(count))
    written = "".join(
        f"ref_write(%r{i}, fn (%x: int32) -> int32 {{ let %g = ref_read(%r{(i + 1) % count}); "
        f"if (%x > {count}) {{ %x }} else {{ %g(%x + 1) }} }});\n"
        for i in range(count)
    )
    left = left_of(f"def @main(%n: int32) {{ {made} {written} let %h = ref_read(%r0); %h(%n) }}")
    assert str(left).count("ref_write(") == 1
    assert int(Evaluator(left).call("main", [0])) == count + 1
