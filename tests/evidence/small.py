"""A small index for tests: two modules, one of them at a commit."""

from __future__ import annotations

from grader.evidence import own
from grader.evidence.pinned import Index, PinnedFile, PinnedModule, Symbol

COMMIT = "0123456789abcdef0123456789abcdef01234567"

QUEUE_GO = """\
// Package queue queues.
package queue

// Add adds.
func (q *Queue) Add(item string) {
\tq.mutex.Lock()
\tdefer q.mutex.Unlock()
\tif q.has(item) {
\t\treturn
\t}
\tq.items = append(
\t\tq.items,
\t\titem,
\t)
}

func (q *Queue) Done(item string) {
\tq.mutex.Lock()
\tdefer q.mutex.Unlock()
\tfmt.Printf(`done %s`, item)
}
"""

PROSE_MD = """\
# Controllers

Use keys, not objects.

## Again

Read `spec` again.
"""


def file(path: str, text: str, **more) -> PinnedFile:
    parsed = own.parse(path, text)
    return PinnedFile(parsed.path, parsed.sha256, parsed.lines, parsed.symbols, **more)


INDEX = Index(
    [
        PinnedModule(
            "example.com/queue",
            "v1.2.3",
            {"pkg/queue.go": file("pkg/queue.go", QUEUE_GO, comments=((1, 1), (4, 4)))},
        ),
        PinnedModule(
            "github.com/example/prose", COMMIT, {"guide/prose.md": file("guide/prose.md", PROSE_MD)}
        ),
    ]
)

__all__ = ["COMMIT", "INDEX", "PROSE_MD", "QUEUE_GO", "Symbol", "file"]
