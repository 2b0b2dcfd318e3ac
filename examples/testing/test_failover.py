"""Tests with pytest and the plugin of packaging/pytest: a program on two devices, and its behaviour when verbs fail.

pip install ./packaging/pytest
pytest examples/testing
"""
import pytest


@pytest.mark.rrdma(devices=2)
def test_both_devices_are_there(rrdma):
    listed = rrdma.run("ibv_devices").stdout
    assert "rrdma0" in listed and "rrdma1" in listed


@pytest.mark.rrdma(faults=["verb=ibv_reg_mr:ENOMEM"])
def test_a_program_says_that_memory_is_short(rrdma):
    done = rrdma.run("ibv_rc_pingpong", "-d", "rrdma0", "-g", "0")
    assert done.returncode != 0
    assert "Couldn't register MR" in done.stderr
    assert "failed with ENOMEM" in rrdma.explain()


@pytest.mark.rrdma(devices=2)
def test_a_port_goes_down_while_a_program_watches(rrdma):
    watch = rrdma.start("ibv_asyncwatch", "-d", "rrdma1")
    assert "async event FD" in watch.stdout.readline()
    number = rrdma.fault("port=down", device="rrdma1")
    assert "PORT_ERR" in watch.stdout.readline()
    rrdma.clear(number)
    assert "PORT_ACTIVE" in watch.stdout.readline()
