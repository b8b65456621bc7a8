"""The ledger balances, and says so when it cannot."""

import pytest

from raysched.ledger import Account, Ledger, LedgerError


@pytest.fixture
def ledger() -> Ledger:
    """Two servers; others use one GPU of the second."""
    return Ledger({"a": Account(4), "b": Account(4, foreign=1)})


def test_gpus_go_from_free_to_granted_to_releasing_to_free(ledger):
    account = ledger.accounts["a"]
    ledger.grant("job", {"a": 3})
    assert (account.free, ledger.held("job")) == (1, {"a": 3})
    ledger.release("job", {"a": 2})
    assert (account.free, ledger.held("job")) == (1, {"a": 1})  # not seen free yet
    ledger.freed("job", "a")
    assert account.free == 3
    ledger.check()


def test_what_others_occupy_is_not_ours_to_give(ledger):
    assert not ledger.fits({"b": 4})
    with pytest.raises(LedgerError, match="which is not free"):
        ledger.grant("job", {"b": 4})


def test_a_job_cannot_give_up_what_it_does_not_hold(ledger):
    ledger.grant("job", {"a": 1})
    with pytest.raises(LedgerError, match="gives up 2 GPUs and holds 1"):
        ledger.release("job", {"a": 2})


def test_a_server_that_is_gone_takes_its_account_along(ledger):
    ledger.grant("job", {"a": 1})
    del ledger.accounts["a"]
    ledger.release("job", {"a": 1})
    ledger.freed("job", "a")
    assert ledger.held("job") == {}
    assert not ledger.fits({"a": 1})


def test_a_gpu_given_twice_is_found(ledger):
    ledger.accounts["a"].granted = {"one": 3, "two": 3}
    with pytest.raises(LedgerError, match="a has 4 GPUs"):
        ledger.check()
