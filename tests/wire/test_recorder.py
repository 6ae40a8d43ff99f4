"""The record survives whatever ends its writer."""

from __future__ import annotations

import errno
import json
import subprocess
import sys

import pytest

from grader.wire.recorder import Recorder, embed, embed_answer
from grader.wire.records import Mark, RecordError, parse_line
from grader.witness.sources import RecordFile


def test_each_line_is_there_when_the_call_returns(tmp_path):
    path = tmp_path / "wire.jsonl"
    recorder = Recorder(path, "op")
    for n in range(3):
        recorder.mark("note", n=n)
        assert parse_line(path.read_bytes().splitlines()[-1]).data == {"n": n}
    recorder.close()


def test_a_record_that_is_continued_goes_on_counting(tmp_path):
    path = tmp_path / "wire.jsonl"
    for _ in range(2):
        recorder = Recorder(path, "op")
        recorder.mark("note")
        recorder.close()
    assert [parse_line(line).seq for line in path.read_bytes().splitlines()] == [1, 2]


def test_a_torn_last_line_costs_that_line_alone(tmp_path):
    path = tmp_path / "wire.jsonl"
    recorder = Recorder(path, "op")
    recorder.mark("note", text="whole")
    recorder.close()
    with path.open("ab") as file:
        file.write(b'{"kind":"mark","seq":2,"cl')
    recorder = Recorder(path, "op")
    recorder.mark("note", text="after")
    recorder.close()
    source = RecordFile(path)
    assert [mark.data["text"] for mark in source.new()] == ["whole", "after"]
    assert source.damaged == 1


def test_a_half_written_line_is_read_once_it_is_whole(tmp_path):
    path = tmp_path / "wire.jsonl"
    line = json.dumps({"kind": "mark", "seq": 1, "client": "op", "what": "note", "t": 1.0})
    path.write_text(line[:20])
    source = RecordFile(path)
    assert source.new() == []
    with path.open("a") as file:
        file.write(line[20:] + "\n")
    (mark,) = source.new()
    assert isinstance(mark, Mark) and source.new() == []


def test_killed_in_the_middle_of_writing_every_line_is_whole(tmp_path):
    path = tmp_path / "wire.jsonl"
    program = (
        "import pathlib, sys\nfrom grader.wire.recorder import Recorder\n"
        "r = Recorder(pathlib.Path(sys.argv[1]), 'op')\n"
        "print('go', flush=True)\n"
        "while True: r.mark('note', text='x' * 2000)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program, path], stdout=subprocess.PIPE)
    child.stdout.readline()
    while not path.exists() or path.stat().st_size < 1_000_000:
        pass
    child.kill()
    child.wait()
    child.stdout.close()
    source = RecordFile(path)
    records = source.new()
    assert [r.seq for r in records] == list(range(1, len(records) + 1))
    assert source.damaged == 0


def test_a_full_disk_is_remembered(tmp_path, full_disk):
    recorder = Recorder(tmp_path / "wire.jsonl", "op")
    with full_disk():
        recorder.mark("note")
    assert recorder.failure is not None and recorder.failure.errno == errno.EFBIG
    recorder.mark("there is room again, and the hole stays")
    assert recorder.failure.errno == errno.EFBIG
    recorder.close()


@pytest.mark.parametrize(
    ("body", "kind", "is_written"),
    [
        (b'{"a":1}\n', "application/json", {"a": 1}),
        (b'{\n "a": 1}\n', "application/json", {"a": 1}),
        (b"{", "application/json", "{"),
        (b'{"a": NaN}', "application/json", '{"a": NaN}'),
        (b"a: 1\n", "application/apply-patch+yaml", {"a": 1}),
        (b"k8s\x00\x01", "application/vnd.kubernetes.protobuf", None),
        (b"line 1\nline 2\xff", "text/plain", "line 1\nline 2�"),
        (b"", "application/json", None),
    ],
)
def test_bodies_are_one_line_of_json_each(body, kind, is_written):
    written = embed(body, kind)
    assert b"\n" not in written
    assert json.loads(written) == is_written


def test_an_answer_is_not_touched():
    body = b'{"kind":"List","items":[{"a":"\\n"}]}'
    assert embed_answer([body + b"\n"], "application/json") == [body]
    assert embed_answer([body[:9], body[9:]], "application/json") == [body[:9], body[9:]]


@pytest.mark.parametrize(
    "pieces", [[b'{\n "a": 1\n}\n'], [b"{\n", b'"a":1}\n'], [b'{"a":1\n', b"}"]]
)
def test_a_pretty_answer_is_put_on_one_line(pieces):
    assert json.loads(embed_answer(pieces, "application/json")) == {"a": 1}
    assert b"\n" not in embed_answer(pieces, "application/json")


def test_a_line_of_many_pieces(tmp_path):
    recorder = Recorder(tmp_path / "wire.jsonl", "op")
    pieces = [b"[0", *[b",%d" % n for n in range(1, 2000)], b"]"]
    recorder.line({"kind": "mark", "what": "note", "t": 0.0}, data=pieces)
    (mark,) = RecordFile(recorder.path).new()
    assert mark.data == list(range(2000))


@pytest.mark.parametrize("line", [b"", b"{}", b"[]", b"null", b'{"kind":"mark"}', b"\xff"])
def test_what_is_no_record_is_said_to_be_none(line):
    with pytest.raises(RecordError):
        parse_line(line)
