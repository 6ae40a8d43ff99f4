"""The learner's folder: where it is, what belongs in it, and what never to overwrite."""

from grader.workspace.folder import (
    Workspace,
    WorkspaceError,
    exists,
    find,
    open_folder,
)
from grader.workspace.create import init, init_folder

__all__ = [
    "Workspace",
    "WorkspaceError",
    "exists",
    "find",
    "init",
    "init_folder",
    "open_folder",
]
