"""Which of the five parts a statement of somebody's operator is, told from what it calls."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from grader import cut
from grader.evidence import answers as written
from grader.labs import lab_4_3_2
from grader.labs.lab_4_3_2_roles import ROLES, Operator
from grader.verdict import Fail

TOLD, QUEUED, TAKEN, LOOKED_UP, WRITTEN = ROLES

PYTHON = """
class Boss:
    def __init__(self, things, server):
        self.todo = RateLimitingQueue()
        self.things = things.lister()
        self.server: ResourceClient = server
        things.add_event_handler(self.heard)

    def heard(self, thing):
        # self.todo.add(thing)
        self.put(thing)

    def put(self, thing):
        self.todo.add(thing.key)

    def work(self):
        while True:
            key = self.todo.get()
            try:
                thing = self.things.get(key)
                live = self.server.get("things", key)
                self.server.replace("things", thing, "status")
                self.server.replace("things", thing)
                unknown.get(key)
            except Exception:
                self.todo.add_rate_limited(key)
"""
GO = """
package main

type boss struct {
	todo   workqueue.TypedRateLimitingInterface[string]
	things listers.ThingLister
	server versioned.Interface
}

func (b *boss) wire(inf cache.SharedIndexInformer) {
	inf.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: b.heard,
	})
}

func (b *boss) heard(obj any) {
	b.todo.Add(keyOf(obj))
}

func (b *boss) work(ctx context.Context) {
	key, over := b.todo.Get()
	thing, err := b.things.Get(key)
	live, err := b.server.V1().Things("x").Get(ctx, key, metav1.GetOptions{})
	b.server.V1().Things("x").UpdateStatus(ctx, thing, metav1.UpdateOptions{})
	b.todo.AddRateLimited(key)
	b.heard(thing)
	// b.todo.Get()
}
"""
CASES = [
    ("boss.py", "things.add_event_handler(", TOLD, True, ""),
    ("boss.py", "self.todo.add(thing.key)", QUEUED, True, ""),
    ("boss.py", "self.todo.get()", TAKEN, True, ""),
    ("boss.py", "self.things.get(key)", LOOKED_UP, True, ""),
    ("boss.py", '"things", thing, "status")', WRITTEN, True, ""),
    ("boss.py", "# self.todo.add(thing)", QUEUED, False, "no-statement-of-yours"),
    ("boss.py", "self.put(thing)", QUEUED, False, "cited-your-caller"),
    ("boss.py", "self.todo.add_rate_limited(key)", QUEUED, False, "cited-the-requeue"),
    ("boss.py", "self.server.get(", LOOKED_UP, False, "asks-the-api-server"),
    ("boss.py", "self.todo.get()", LOOKED_UP, False, "another-part-of-yours"),
    ("boss.py", 'self.server.replace("things", thing)', WRITTEN, False, "another-line-of-yours"),
    ("boss.py", "def put(self, thing):", QUEUED, False, "no-statement-of-yours"),
    # Nothing says what it is made on: nothing is said against it.
    ("boss.py", "unknown.get(key)", LOOKED_UP, None, ""),
    ("boss.go", "inf.AddEventHandler(", TOLD, True, ""),
    ("boss.go", "AddFunc: b.heard,", TOLD, True, ""),
    ("boss.go", "b.todo.Add(keyOf(obj))", QUEUED, True, ""),
    ("boss.go", "b.todo.Get()\n\tthing", TAKEN, True, ""),
    ("boss.go", "b.things.Get(key)", LOOKED_UP, True, ""),
    ("boss.go", "UpdateStatus(", WRITTEN, True, ""),
    ("boss.go", "live, err :=", LOOKED_UP, False, "asks-the-api-server"),
    ("boss.go", "b.todo.AddRateLimited(key)", QUEUED, False, "cited-the-requeue"),
    ("boss.go", "b.heard(thing)", QUEUED, False, "cited-your-caller"),
    ("boss.go", "func (b *boss) work", TAKEN, False, "no-statement-of-yours"),
    ("boss.go", "// b.todo.Get()", TAKEN, False, "no-statement-of-yours"),
    ("boss.go", "UpdateStatus(", TAKEN, False, "another-part-of-yours"),
]


@pytest.mark.parametrize(("path", "text", "role", "right", "diagnosis"), CASES)
def test_a_statement_is_known_by_what_it_calls(path, text, role, right, diagnosis):
    sources = {"boss.py": PYTHON, "boss.go": GO}
    line = sources[path][: sources[path].index(text)].count("\n") + 1
    answer = Operator(sources).judge(role, path, line)
    assert (answer.right, answer.diagnosis) == (right, diagnosis), answer.seen


@pytest.mark.parametrize(
    ("track", "variant"), [("python", ""), ("go", ""), ("go", "go-server-side-apply")]
)
def test_the_reference_answers_cite_the_five_parts(track, variant, tmp_path):
    folder = cut.handed_in("4.3.2", track, tmp_path, variant=variant)
    answers = written.parse((folder / "answers.md").read_text(encoding="utf-8"))
    submission = SimpleNamespace(root=tmp_path, program_folder="operator_handwired")
    lab_4_3_2.check_five_own(answers, submission)
    lab_4_3_2.check_five_upstream(answers)


def test_a_line_of_another_folder_is_not_the_operators(tmp_path):
    folder = cut.handed_in("4.3.2", "python", tmp_path)
    machinery = tmp_path / "machinery" / "workqueue.py"
    number, text = next(
        (number, line.strip())
        for number, line in enumerate(machinery.read_text(encoding="utf-8").splitlines(), 1)
        if "self._queue.append(key)" in line
    )
    source = (folder / "answers.md").read_text(encoding="utf-8")
    head, mark, tail = source.partition("## A key is queued")
    own = next(line for line in tail.splitlines() if line.startswith("`"))
    cited = f"`machinery/workqueue.py:{number}` `{text}`"
    answers = written.parse(head + mark + tail.replace(own, cited, 1))
    submission = SimpleNamespace(root=tmp_path, program_folder="operator_handwired")
    with pytest.raises(Fail) as caught:
        lab_4_3_2.check_five_own(answers, submission)
    assert caught.value.message.diagnosis == "not-your-operator"
