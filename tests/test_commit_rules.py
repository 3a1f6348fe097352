"""Commit messages: the rules of ``.githooks/commit-msg`` and the check of unpushed commits."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HOOKS = Path(__file__).parent.parent / ".githooks"
BODY = "\n\nThe old check counted removed orders, too.\n"
GOOD = {
    "short": f"book: skip removed orders{BODY}",
    "several parts": f"cli, docs/start.md: rename the flag{BODY}",
    "72 characters": f"book: {'x' * 66}{BODY}",
    "72 characters outside ASCII": f"book: x{'é' * 65}{BODY}",
    "trailer after the body": f"book: skip removed orders{BODY}\nSigned-off-by: A <a@b.c>\n",
    "comments of the editor": f"# Please enter\nbook: skip removed orders\n# hint{BODY}# On main\n",
    "diff below the scissors": f"book: skip removed orders{BODY}# ---- >8 ----\ndiff --git a b\n",
    "merge": "Merge branch 'fees' into main\n",
    "revert": 'Revert "book: skip removed orders"\n\nThis reverts commit 0123456.\n',
    "fixup": "fixup! book: skip removed orders\n",
}
BAD = {
    "no part": (f"Skip removed orders{BODY}", "subject must read"),
    "capital after the part": (f"book: Skip removed orders{BODY}", "subject must read"),
    "no verb": (f"book:{BODY}", "subject must read"),
    "73 characters": (f"book: {'x' * 67}{BODY}", "at most 72 characters; got 73"),
    "no blank line": ("book: skip removed orders\nThey were counted.\n", "second line must be"),
    "no body": ("book: skip removed orders\n", "body is missing"),
    "only a trailer": ("book: skip it\n\nCo-authored-by: A <a@b.c>\n", "body is missing"),
    "only comments": ("book: skip it\n\n# On branch main\n", "body is missing"),
    "only a diff": ("book: skip it\n# ---- >8 ----\ndiff --git a b\n", "body is missing"),
    "empty": ("", "subject must read"),
}
pytestmark = [
    pytest.mark.skipif(not HOOKS.is_dir(), reason="not here: no hooks beside the tests"),
    pytest.mark.skipif(shutil.which("git") is None, reason="not here: git is not installed"),
]


@pytest.fixture
def run(tmp_path):
    """Run a command in an empty folder, with the machine's own git settings out of the way."""
    folder = tmp_path / "repository"
    folder.mkdir()
    environment = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
    environment |= {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CEILING_DIRECTORIES": str(tmp_path),
        **{f"GIT_{role}_NAME": "A" for role in ("AUTHOR", "COMMITTER")},
        **{f"GIT_{role}_EMAIL": "a@example.org" for role in ("AUTHOR", "COMMITTER")},
    }

    def run(*command, text="", cwd=folder):
        return subprocess.run(
            command, input=text, capture_output=True, text=True, cwd=cwd, env=environment
        )

    run.folder = folder
    return run


@pytest.fixture
def repository(run):
    """A repository with the hooks in it, one commit, and no rules applied to that commit."""
    shutil.copytree(HOOKS, run.folder / ".githooks")
    for command in (
        ("git", "init", "--quiet", "--initial-branch=main"),
        ("git", "add", ".githooks"),
        ("git", "commit", "--quiet", "-m", "Old subject"),
    ):
        assert run(*command).returncode == 0
    return run


def check_commits(run, folder="."):
    return run(str(run.folder / folder / ".githooks" / "check-commits"))


def commit(run, message):
    assert run("git", "commit", "--quiet", "--allow-empty", "-m", message).returncode == 0


def set_pushed(run):
    """Let origin/main be the present commit."""
    assert run("git", "update-ref", "refs/remotes/origin/main", "HEAD").returncode == 0


@pytest.mark.parametrize("message", GOOD.values(), ids=GOOD)
def test_good_message_is_accepted(run, message):
    path = run.folder / "MESSAGE"
    path.write_text(message)
    result = run(str(HOOKS / "commit-msg"), str(path))
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize(("message", "problem"), BAD.values(), ids=BAD)
def test_bad_message_is_rejected_with_the_broken_rule(run, message, problem):
    path = run.folder / "MESSAGE"
    path.write_text(message)
    result = run(str(HOOKS / "commit-msg"), str(path))
    assert result.returncode == 1
    assert problem in result.stderr


def test_git_runs_the_hook(repository):
    assert repository("git", "config", "core.hooksPath", ".githooks").returncode == 0
    bad = repository("git", "commit", "--allow-empty", "-m", "Bad subject")
    assert bad.returncode == 1
    assert "subject must read" in bad.stderr
    commit(repository, GOOD["short"])


def test_commits_without_a_remote_are_not_checked(repository):
    assert check_commits(repository).returncode == 0


def test_unpushed_commits_are_checked_and_pushed_ones_are_not(repository):
    set_pushed(repository)
    commit(repository, GOOD["short"])
    assert check_commits(repository).returncode == 0
    commit(repository, "Bad subject")
    result = check_commits(repository)
    assert result.returncode == 1
    assert "Bad subject" in result.stderr
    set_pushed(repository)
    assert check_commits(repository).returncode == 0


def test_upstream_branch_goes_before_origin_main(repository):
    set_pushed(repository)
    commit(repository, "Bad subject")
    assert repository("git", "branch", "base").returncode == 0
    assert repository("git", "branch", "--set-upstream-to=base").returncode == 0
    assert check_commits(repository).returncode == 0


def test_shallow_clone_is_not_checked(repository):
    set_pushed(repository)
    commit(repository, "Bad subject")
    source = repository.folder.as_uri()
    assert repository("git", "clone", "--quiet", "--depth=1", source, "shallow").returncode == 0
    assert check_commits(repository, "shallow").returncode == 0


def test_folder_without_git_is_not_checked(run):
    shutil.copytree(HOOKS, run.folder / ".githooks")
    assert check_commits(run).returncode == 0


def test_source_archive_inside_another_repository_is_not_checked(repository):
    set_pushed(repository)
    commit(repository, "Bad subject")
    shutil.copytree(HOOKS, repository.folder / "archive" / ".githooks")
    assert check_commits(repository, "archive").returncode == 0
