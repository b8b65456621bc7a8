"""Type and speed of a node's GPUs, as its labels tell them."""

import logging

import pytest

from raysched.runtime.cluster import RATE_LABEL, TYPE_LABEL, gpus_of


def test_without_labels_all_gpus_are_alike():
    assert gpus_of("s1", {}) == ("GPU", 1.0)


def test_labels_name_type_and_rate():
    assert gpus_of("s1", {TYPE_LABEL: "T4", RATE_LABEL: "0.25"}) == ("T4", 0.25)


def test_slower_gpus_without_a_name_are_a_type_of_their_own():
    assert gpus_of("s1", {RATE_LABEL: "0.25"}) == ("GPU-0.25", 0.25)


@pytest.mark.parametrize("written", ["fast", "0", "-1", "inf", "nan"])
def test_what_is_no_rate_is_said_once_and_taken_as_1(written, caplog):
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert gpus_of("s2", {RATE_LABEL: written}) == ("GPU", 1.0)
    assert [record.getMessage() for record in caplog.records] == [
        f"server s2: label gpu_rate={written} is not a positive number; 1 is taken"
    ]
