"""Deploys the template to an emulator of AWS and renders on it. Begun by `run`, which makes the environments."""

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

import build
from processes import Failed, end_all, end_on_signals, step
from scenes import Scenes
from stack import Sandbox, Stack, environment


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/deploy/run", description=__doc__)
    parser.add_argument("--emulator", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument(
        "--only-build", action="store_true", help="lint, build and measure the bootstraps, deploy nothing"
    )
    parser.add_argument("--keep", action="store_true", help="keep the folder with logs and books")
    return parser.parse_args()


def _play(arguments: argparse.Namespace, work: Path) -> None:
    # Not resolved: the environment is where its link is, not where its Python is.
    tools = Path(sys.executable).absolute().parent
    env = environment(tools)
    build.validate(env)
    built = build.bootstraps(env, work)
    if arguments.only_build:
        return
    build.tools(env)
    programs = Path(env["CARGO_TARGET_DIR"]) / "debug"
    sandbox = Sandbox(programs / "glassline-sandbox", work, env)
    stack = Stack(arguments.emulator, programs / "glassline", work, env)
    for scene in Scenes(stack, sandbox, built).all():
        began = time.monotonic()
        scene()
        print(f"   {scene.__name__}: {time.monotonic() - began:.0f} s", flush=True)


def main() -> int:
    """Plays all scenes; 0 when everything held."""
    arguments = _arguments()
    end_on_signals()
    began = time.monotonic()
    work = Path(tempfile.mkdtemp(prefix="glassline-deploy-"))
    keep = arguments.keep
    try:
        _play(arguments, work)
        step(f"everything held, in {time.monotonic() - began:.0f} s")
        return 0
    except Failed as failed:
        print(f"tests/deploy: {failed}; logs and books are in {work}", file=sys.stderr, flush=True)
        keep = True
        return 1
    except BaseException:
        keep = True
        raise
    finally:
        end_all()
        if not keep:
            shutil.rmtree(work)


if __name__ == "__main__":
    sys.exit(main())
