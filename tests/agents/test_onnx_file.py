"""Files that are no export, or do more than compute: each is refused with what to do, and nothing of it runs."""

import json
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tests.agents.exporting import export_of
from tvwrl.agents import exported as onnx_file
from tvwrl.agents.exported import ExportedPolicy, Facts, is_of_export, load_exported, metadata_of, read_onnx
from tvwrl.types import InputError


@pytest.fixture(scope="module")
def content(problem):
    """A file of tvwrl export."""
    return export_of(problem, "shared that never holds")


def model(nodes=(), initializers=(), opsets=(), **metadata):
    """A small model: `y` is `x`, and what else is given."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
    nodes = [*nodes, helper.make_node("Identity", ["x"], ["y"])]
    graph = helper.make_graph(nodes, "it", ends[:1], ends[1:], initializers)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20), *opsets], ir_version=10)
    helper.set_model_props(made, metadata)
    return made


def refused(made):
    """What is said of a model."""
    with pytest.raises(InputError) as caught:
        metadata_of(made.SerializeToString(), "it.onnx")
    assert str(caught.value).endswith("; write it again with tvwrl export")
    return str(caught.value)


def test_metadata_are_read_as_onnx_reads_them(content):
    assert metadata_of(model(a="1", b="zwei").SerializeToString(), "it") == {"a": "1", "b": "zwei"}
    found = metadata_of(content, "it")
    assert json.loads(found["tvwrl.name"]) == "mine"
    assert set(found) == set(Facts.from_texts(found, "it").to_texts())


def test_what_takes_numbers_from_other_files_is_refused():
    away = numpy_helper.from_array(np.zeros(1, np.float32), "w")
    away.ClearField("raw_data")
    away.data_location = TensorProto.EXTERNAL
    entry = away.external_data.add()
    entry.key, entry.value = "location", "../../secret"
    says = "it.onnx takes numbers from another file, which is refused"
    assert refused(model(initializers=[away])).startswith(says)
    assert refused(model([helper.make_node("Constant", [], ["c"], value=away)])).startswith(says)


def test_what_a_branch_takes_from_another_file_is_refused_too(tmp_path, monkeypatch):
    """ONNX Runtime itself would read it, from the folder that the process is in: 1.18 and 1.32 do."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.bin").write_bytes(np.ones(1, np.float32).tobytes())
    away = numpy_helper.from_array(np.zeros(1, np.float32), "w")
    away.ClearField("raw_data")
    away.data_location = TensorProto.EXTERNAL
    entry = away.external_data.add()
    entry.key, entry.value = "location", "secret.bin"
    out = [helper.make_tensor_value_info("o", TensorProto.FLOAT, [1])]
    reads = helper.make_graph([helper.make_node("Identity", ["w"], ["o"])], "then", [], out, [away])
    passes = helper.make_graph([helper.make_node("Identity", ["x"], ["o"])], "else", [], out)
    positive = helper.make_node("Cast", ["x"], ["c"], to=TensorProto.BOOL)
    made = model([positive, helper.make_node("If", ["c"], ["z"], then_branch=reads, else_branch=passes)])
    assert "holds loops, branches or sparse tensors" in refused(made)


def test_operators_of_others_are_refused():
    strange = helper.make_node("Run", ["x"], ["z"], domain="com.example")
    assert "uses operators of 'com.example'" in refused(model([strange]))
    assert "uses operators of 'ai.onnx.ml'" in refused(model(opsets=[helper.make_opsetid("ai.onnx.ml", 3)]))


def test_loops_and_functions_are_refused():
    inner = model().graph
    loop = helper.make_node("Loop", ["n", "c"], ["z"], body=inner)
    assert "holds loops, branches or sparse tensors" in refused(model([loop]))
    made = model()
    made.functions.append(helper.make_function("own", "f", ["x"], ["y"], [], [helper.make_opsetid("", 20)]))
    assert "holds functions or training steps" in refused(made)


def test_a_model_of_somebody_else_is_refused_but_left_to_compare(tmp_path):
    file = tmp_path / "other.onnx"
    file.write_bytes(model().SerializeToString())
    with pytest.raises(InputError, match="is not a policy that tvwrl exported: its metadata lacks"):
        load_exported(file)
    assert not is_of_export(file)
    assert not is_of_export(tmp_path / "nothing.onnx")


def test_missing_empty_and_huge_files_are_refused(tmp_path, monkeypatch):
    file = tmp_path / "it.onnx"
    with pytest.raises(InputError, match=r"it.onnx cannot be read: No such file or directory; write it again"):
        load_exported(file)
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        load_exported(tmp_path)
    file.touch()
    with pytest.raises(InputError, match="is not an ONNX file, or was cut off"):
        load_exported(file)
    monkeypatch.setattr(onnx_file, "MOST_BYTES", 1000)
    with file.open("wb") as sparse:
        os.truncate(sparse.fileno(), 2000)
    with pytest.raises(InputError, match="has 2,000 bytes: an exported policy has at most 1,000"):
        read_onnx(file)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_damaged_file_is_refused_or_still_a_policy(content, data):
    at = data.draw(st.integers(0, len(content) - 1))
    cut = data.draw(st.booleans())
    changed = content[:at] if cut else content[:at] + data.draw(st.binary(min_size=1, max_size=4)) + content[at + 1 :]
    said = ""
    try:
        ExportedPolicy.from_bytes(changed, "it.onnx")
    except InputError as error:
        said = str(error)
    assert said.startswith("it.onnx " if said or cut else "")
    assert "\n" not in said


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300))
def test_noise_is_refused(noise):
    with pytest.raises(InputError):
        ExportedPolicy.from_bytes(noise, "it.onnx")


@pytest.mark.parametrize(
    ("field", "text", "says"),
    [
        ("format", "2", "in export format 2; this is tvwrl"),
        ("format", "[", "is damaged: JSONDecodeError"),
        ("policy", '"deeprm"', "is damaged: ValueError its policy is 'deeprm'"),
        ("scenario", '{"histo": 3}', "is damaged: "),
        ("scenario", "[" * 100_000, "is damaged: RecursionError"),
        ("shapes", '{"grid": [1, 2]}', "is damaged: ValueError"),
        ("signature", "{}", "do not make its signature"),
        ("classes", "{}", "is damaged: KeyError"),
        ("unit", "[0.1, NaN]", "is damaged: ValueError its unit is"),
        ("unit", "[0.1]", "its shapes are of 2 resources"),
        ("trace", '{"name": "a"}', "its trace has no name or hash"),
    ],
)
def test_facts_that_contradict_one_another_are_refused(content, field, text, says):
    texts = metadata_of(content, "it") | {f"tvwrl.{field}": text}
    with pytest.raises(InputError, match=r"^it ") as caught:
        Facts.from_texts(texts, "it")
    assert says in str(caught.value)


def test_a_missing_field_is_named(content):
    texts = metadata_of(content, "it")
    del texts["tvwrl.classes"]
    with pytest.raises(InputError, match="it is damaged: KeyError 'classes'; export the run again"):
        Facts.from_texts(texts, "it")


def test_a_network_of_other_inputs_is_refused(content):
    made = model()
    for name, text in metadata_of(content, "it").items():
        entry = made.metadata_props.add()
        entry.key, entry.value = name, text
    with pytest.raises(InputError, match="it takes x and returns y: must be backlog, grid, mask, queue and logits"):
        ExportedPolicy.from_bytes(made.SerializeToString(), "it")
