"""The bootstraps: built by cargo-lambda through the SAM CLI, as the README says, and measured."""

import re
import subprocess
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

from samcli.yamlhelper import yaml_parse

from processes import Failed, check, run, step

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = ROOT / "template.yaml"
# A zip may have this many bytes: a cold start downloads it.
ZIP_MAX_BYTES = 5_000_000
# What is larger all the same, and how large it may be. In the finisher's, 0.66 MB are tables of `crc-fast`, for
# checksums that nobody asks for; the S3 service of OpenDAL brings them, and nothing turns them off.
LARGER = {"Finisher": 5_600_000}
# What provided.al2023 has.
GLIBC_MAX = (2, 34)


@dataclass(frozen=True)
class Function:
    """A function of the template, as it is built."""

    name: str
    binary: str
    folder: Path


def functions() -> list[Function]:
    """The template's functions. Nothing here names one, so a new function only needs its place in the template."""
    found = []
    for name, resource in yaml_parse(TEMPLATE.read_text())["Resources"].items():
        if resource["Type"] != "AWS::Serverless::Function":
            continue
        metadata = resource["Metadata"]
        check(metadata["BuildMethod"] == "rust-cargolambda", f"{name} isn't built by cargo-lambda")
        properties = metadata["BuildProperties"]
        folder = ROOT / resource["Properties"]["CodeUri"]
        found.append(Function(name, properties["Binary"], folder))
    return found


def _glibc(binary: Path) -> tuple[int, int]:
    """The newest version of the C library that a program asks for."""
    listed = subprocess.run(["objdump", "-T", binary], check=True, capture_output=True, text=True).stdout
    return max((int(a), int(b)) for a, b in re.findall(r"GLIBC_(\d+)\.(\d+)", listed))


def _zip_bytes(folder: Path, zipped: Path) -> int:
    """How large a function's package is, packed as the SAM CLI does it."""
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, path.relative_to(folder))
    return zipped.stat().st_size


def tools(environment: dict[str, str]) -> None:
    """Builds the command and the provider, with the profile that the tests have built already."""
    step("build the command and the sandbox provider")
    run(["cargo", "build", "--workspace", "--bins", "--locked"], environment, ROOT)


def bootstraps(environment: dict[str, str], work: Path) -> Path:
    """Builds every bootstrap at once, then packs them by `sam build`; gives the folder with the built template."""
    wanted = functions()
    step(f"build {len(wanted)} bootstraps with cargo-lambda")
    began = time.monotonic()
    # What else it is told is in Cargo.toml, where `sam build` finds it, too.
    command = ["cargo", "lambda", "build", "--release"]
    for function in wanted:
        command += ["--bin", function.binary]
    # In one call they share the dependencies and are linked side by side; `sam build` then finds them made.
    run(command, environment, wanted[0].folder)
    print(f"   {time.monotonic() - began:.0f} s", flush=True)
    made = Path(environment["CARGO_TARGET_DIR"]) / "lambda"
    before = {function.name: (made / function.binary / "bootstrap").read_bytes() for function in wanted}
    step("sam build")
    began = time.monotonic()
    built = work / "build"
    run(["sam", "build", "--build-dir", str(built)], environment, ROOT)
    print(f"   {time.monotonic() - began:.0f} s", flush=True)
    for function in wanted:
        binary = built / function.name / "bootstrap"
        check(binary.read_bytes() == before[function.name], f"`sam build` makes another {function.name}")
        glibc, size_bytes = _glibc(binary), binary.stat().st_size
        zip_bytes = _zip_bytes(built / function.name, work / f"{function.name}.zip")
        print(
            f"   {function.name:<12} {size_bytes / 1e6:6.2f} MB, zipped {zip_bytes / 1e6:.2f} MB, "
            f"GLIBC_{glibc[0]}.{glibc[1]}",
            flush=True,
        )
        allowed = LARGER.get(function.name, ZIP_MAX_BYTES)
        check(zip_bytes < allowed, f"{function.name}'s zip has {zip_bytes} bytes, {allowed} are allowed")
        check(glibc <= GLIBC_MAX, f"{function.name} needs GLIBC_{glibc[0]}.{glibc[1]}, provided.al2023 has 2.34")
    return built


def validate(environment: dict[str, str]) -> None:
    """Lints the template and these scripts."""
    step("sam validate --lint, cfn-lint, ruff")
    run(["sam", "validate", "--lint"], environment, ROOT)
    run(["cfn-lint", "--non-zero-exit-code", "warning", str(TEMPLATE)], environment, ROOT)
    run(["ruff", "check", "--no-cache", str(Path(__file__).parent)], environment, ROOT)
    run(["ruff", "format", "--no-cache", "--check", str(Path(__file__).parent)], environment, ROOT)


def renew(built: Path, revision: str) -> None:
    """Makes new packages of what was built: another file beside each bootstrap, so that every function is replaced."""
    for function in functions():
        folder = built / function.name
        if not folder.is_dir():
            raise Failed(f"{folder} isn't there: build first")
        (folder / "revision").write_text(revision)
