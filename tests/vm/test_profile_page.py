"""The page of a profile needs nothing else, and names from programs are only text in it."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np

import relayvm
from relayvm.vm.profile import (
    AllocationProfile,
    CallNode,
    Event,
    FunctionProfile,
    InstructionProfile,
    KernelProfile,
    Peaks,
    Profile,
)

EVIL = """</script><img src=x onerror="alert('1')">&amp;@@TABLES@@"""
VOID = {"meta", "img", "br", "link", "input"}


class Page(HTMLParser):
    """Elements and texts of a page; all that is opened must be closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def of_class(self, name: str) -> list[dict[str, str | None]]:
        return [a for _, a in self.elements if name in (a.get("class") or "").split()]


def evil_profile(time_ns: int = 1000) -> Profile:
    return Profile(
        entry=EVIL,
        kernels=(KernelProfile(EVIL, 1, time_ns // 2, 10, (EVIL,), 8),),
        time_ns=time_ns,
        steps=1,
        engine=EVIL,
        functions=(FunctionProfile(EVIL, 1, time_ns // 2, time_ns // 2, time_ns),),
        instructions=(InstructionProfile(EVIL, 1, None),),
        allocations=(AllocationProfile(EVIL, 1, None),),
        calls=(
            CallNode("the host", False, -1, 1, 0.0, time_ns),
            CallNode(EVIL, False, 0, 1, time_ns / 2, time_ns),
            CallNode(EVIL, True, 1, 1, time_ns / 2, time_ns / 2),
        ),
        events=(Event(EVIL, False, 0.0, float(time_ns), 0),),
        peaks=Peaks(1e11, ((1 << 14, 1e11),)),
    )


def test_names_are_escaped_everywhere() -> None:
    page = Page(evil_profile().html())
    assert [tag for tag, _ in page.elements].count("script") == 1
    assert not any(tag == "img" for tag, _ in page.elements)
    frames = page.of_class("frame")
    assert len(frames) == 3 and (frames[1]["title"] or "").startswith(EVIL)
    assert sum(EVIL in text for text in page.texts) >= 7


def test_the_page_loads_nothing_and_may_not() -> None:
    text = evil_profile().html()
    page = Page(text)
    names = {name for _, attributes in page.elements for name in attributes}
    assert not names & {"src", "href", "srcset", "action", "onclick", "onerror", "onload"}
    assert "url(" not in text and "@import" not in text and "fetch(" not in text
    (policy,) = (a["content"] for _, a in page.elements if "http-equiv" in a)
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    assert "innerHTML" not in text and "eval" not in text
    assert "prefers-color-scheme: dark" in text


def test_boxes_lie_within_their_callers() -> None:
    text = "def @f(%n: int32) -> int32 { if (%n < 2) { %n } else { @f(%n - 1) + @f(%n - 2) } }\n"
    text += "def @main[n](%n: int32, %x: Tensor[(n), float32]) { (@f(%n), exp(%x)) }"
    profile = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text))).profile(
        15, np.zeros(1 << 16, np.float32)
    )
    page = Page(profile.html())
    boxes = [
        (int(a["data-depth"] or 0), float(a["data-begin"] or 0), float(a["data-width"] or 0))
        for a in page.of_class("frame")
    ]
    assert boxes[0] == (0, 0.0, 1.0) and len(boxes) == len(profile.calls) == 4
    for depth, begin, width in boxes[1:]:
        assert any(
            d == depth - 1 and b <= begin + 1e-5 and begin + width <= b + w + 1e-5
            for d, b, w in boxes
        )


def test_cells_have_the_numbers_that_they_are_sorted_by() -> None:
    page = Page(evil_profile().html())
    for tag, attributes in page.elements:
        if tag == "td" and "data-value" in attributes:
            assert re.fullmatch(r"[-+.e\d]+", attributes["data-value"] or "")
    heads = [a for tag, a in page.elements if tag == "th" and a.get("scope") == "col"]
    assert heads and all(a["aria-sort"] == "none" for a in heads)


def test_a_profile_of_nothing_has_a_page() -> None:
    Page(Profile("main", (), 0, 0).html())
    assert Page(evil_profile(0).html()).of_class("frame") == []
