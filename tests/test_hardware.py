"""Facts about the description of the machine."""

import platform

import pytest

from tfsoftmax.support import hardware


@pytest.mark.parametrize("text, name", [
    ("processor\t: 0\nmodel name\t: A Chip\nflags\t\t: sse avx512_bf16\n\nprocessor\t: 1\n",
     "A Chip with bfloat16"),
    ("model name\t: A Chip\nflags\t\t: sse avx512f\n", "A Chip"),
    ("model name : An Arm\nFeatures : fp bf16\n", "An Arm with bfloat16"),
])
def test_a_processor_that_multiplies_bfloat16_says_so(tmp_path, text, name):
    (tmp_path / "cpuinfo").write_text(text)
    assert hardware._processor(tmp_path / "cpuinfo") == name


def test_a_machine_without_cpuinfo_has_a_name(tmp_path):
    assert hardware._processor(tmp_path / "missing") in (platform.processor(), platform.machine())
