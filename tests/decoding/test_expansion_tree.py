"""Ranges of the expansion tree against a search through all expansions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from omnidraft.decoding.verify import ExpansionTree, Node

PIECES = 3
expansions = st.lists(st.lists(st.integers(0, PIECES - 1), max_size=4).map(tuple), min_size=1, max_size=30)
walks = st.lists(st.integers(0, PIECES), max_size=5)


def node_at(tree: ExpansionTree, walk) -> Node:
    node = tree.root
    for piece in walk:
        node = tree.child(node, piece)
    return node


@given(expansions, walks)
def test_a_node_holds_exactly_the_ids_whose_expansion_begins_with_its_pieces(spelled, walk):
    tree = ExpansionTree(spelled)
    node = node_at(tree, walk)
    begins = {t for t, e in enumerate(spelled) if e and e[: len(walk)] == tuple(walk)}
    unspelled = {t for t, e in enumerate(spelled) if not e}
    exact = {t for t in begins if len(spelled[t]) == len(walk)} if walk else set()
    assert node.pieces == tuple(walk)
    assert set(tree.exact(node).tolist()) == exact
    assert set(tree.longer(node).tolist()) == (begins - exact) | (set() if walk else unspelled)


@given(expansions, walks)
def test_the_children_of_a_node_share_out_its_longer_ids(spelled, walk):
    tree = ExpansionTree(spelled)
    node = node_at(tree, walk)
    longer = tree.longer(node).tolist()
    by_piece = {}
    for t in longer:
        by_piece.setdefault(tree.next_piece(node, t), set()).add(t)
    for piece, members in by_piece.items():
        child = tree.child(node, piece)
        assert set(tree.ids[child.low : child.high].tolist()) == members
    assert sum(len(m) for m in by_piece.values()) == len(longer)


@given(expansions)
def test_every_id_is_in_the_tree_once_also_those_that_have_no_expansion(spelled):
    tree = ExpansionTree(spelled)
    assert sorted(tree.longer(tree.root).tolist()) == list(range(len(spelled)))
