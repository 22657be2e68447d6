"""Writes requirements-ci.txt: the pins of constraints.txt with the SHA-256 of each of their wheels.

    python tools/hash_requirements.py [TORCH_CPU_WHEEL]

The hashes are those that PyPI publishes, of the wheels for any system and for Linux on x86-64.
Those of torch there are the CUDA builds; the hash of its CPU build is taken from the wheel that is
given, else kept as it is.
"""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path
from urllib.request import urlopen

ROOT = Path(__file__).parent.parent
CONSTRAINTS, TARGET = ROOT / "constraints.txt", ROOT / "requirements-ci.txt"
LINK = re.compile(r'href="[^"]*/([^/"#]+\.whl)#sha256=([0-9a-f]{64})"')
HEAD = """\
# Written by tools/hash_requirements.py. The wheels that CI installs, on Linux and x86-64:
#   pip install --require-hashes --only-binary :all: -r requirements-ci.txt
#   pip install --no-deps --no-build-isolation -e .
# torch is its CPU build; pip finds it with --extra-index-url https://download.pytorch.org/whl/cpu
"""


def published(name: str, version: str) -> list[str]:
    """The SHA-256 of the wheels of a release that may be installed in CI, by their names."""
    with urlopen(f"https://pypi.org/simple/{name.lower().replace('_', '-')}/", timeout=60) as page:
        links = LINK.findall(page.read().decode())
    found = {}
    for wheel, digest in links:
        release, platform = wheel.split("-")[1], wheel.removesuffix(".whl").split("-")[-1]
        usable = platform == "any" or ("manylinux" in platform and "x86_64" in platform)
        if release == version and usable:
            found[wheel] = digest
    return [found[wheel] for wheel in sorted(found)]


def main(wheels: list[str]) -> None:
    lines = []
    for pin in CONSTRAINTS.read_text("utf-8").split():
        name, version = pin.split("==")
        if name != "torch":
            digests = published(name, version)
        elif wheels:
            digests = [hashlib.sha256(Path(wheels[0]).read_bytes()).hexdigest()]
        else:
            written = TARGET.read_text("utf-8").split(f"{pin} ")[1].split("==")[0]
            digests = re.findall("sha256:([0-9a-f]{64})", written)
        if not digests:
            sys.exit(f"PyPI has no wheel of {pin} for Linux on x86-64")
        lines.append(" \\\n    ".join([pin, *(f"--hash=sha256:{x}" for x in digests)]))
    TARGET.write_text(HEAD + "\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
