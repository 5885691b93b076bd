"""The beam from the trace of a search: what was dropped, and why."""

import pytest

from conftest import decode


def candidate(row, token, log_prob, fate, **more):
    return {"row": row, "token": token, "log_prob": log_prob, "token_score": log_prob, "diversity": 0, "rank_score": log_prob,
            "rank": 1, "fate": f"TRACE_FATE_{fate}", "answer": 0, "scorer_log_probs": [], **more}


START = {"parent": 0, "token": 0, "sum": 0, "reward": 0, "fused": 0, "offset": 0, "group": 0}
TRACE = {
    "steps": [
        {"rows": [START], "num_omitted": 7, "candidates": [
            candidate(0, 5, -0.25, "KEPT", next_row=1), candidate(0, 6, -0.5, "KEPT", next_row=0),
            candidate(0, 7, -3, "BEAM"), candidate(0, 8, "-Infinity", "IMPOSSIBLE", token_score="-Infinity", rank_score="-Infinity", rank=0)]},
        {"rows": [{**START, "token": 6, "sum": -0.5}, {**START, "token": 5, "sum": -0.25, "reward": 2}], "num_omitted": 0, "candidates": [
            candidate(1, 1, -0.125, "ANSWER", answer=1, score=-0.375), candidate(0, 1, -9, "END_BELOW_BEAM"),
            candidate(0, 6, -1, "STOPPED", token_score=-0.5)]}],
    "truncated": True, "token_texts": {"1": "</s>", "5": "A", "6": "B", "7": "C", "8": "D"}, "scorers": []}


@pytest.fixture
def traced(page):
    """The made-up trace as the answer to whatever is asked."""
    hypothesis = {"tokens": [5, 1], "token_log_probs": [-0.25, -0.125], "text": "A", "log_prob": -0.375, "score": -0.375,
                  "finish_reason": "FINISH_REASON_EOS"}
    answer = {"results": [{"decoded": {"hypotheses": [hypothesis], "steps": 2, "compute_ms": 1, "trace": TRACE}}],
              "model": "g2p-en", "version": "1", "numerics": "f32"}
    page.route("**:decode", lambda route: route.fulfill(json=answer))
    decode(page, source="x")
    page.get_by_text("This step as a table").click()
    return page


def rows(page):
    return [[cell.inner_text() for cell in row.locator("td").all()][1:] for row in page.locator(".step-table tbody tr").all()]


def test_every_candidate_and_its_fate(traced):
    assert [(row[0], row[3]) for row in rows(traced)] == [
        ("A </s>", "finished with an end token"), ("B </s>", "dropped: an end token below as many candidates as the beam holds"),
        ("B B", "the search stopped here")]
    assert traced.locator(".position").inner_text() == "Step 2 of 2: 1 live, 1 finished, 1 dropped"
    traced.get_by_role("button", name="Step back").click()
    assert [(row[0], row[3]) for row in rows(traced)] == [
        ("A", "went on"), ("B", "went on"),
        ("C", "dropped: the beam was full of candidates that rank above it"), ("D", "dropped: ruled out here: its probability is 0")]
    assert "7 more not listed" in traced.locator(".step-table").inner_text()
    assert traced.get_by_text("longer than a trace may be").count() == 1


def test_the_parts_of_a_rank(traced):
    tree = traced.get_by_role("application")
    tree.focus()
    detail = traced.locator(".beam-detail")
    assert "rewards so far\n2.000" in detail.inner_text()
    tree.press("ArrowDown")
    tree.press("ArrowDown")
    assert "B B" in detail.inner_text() and "added to the token\n0.500" in detail.inner_text()
