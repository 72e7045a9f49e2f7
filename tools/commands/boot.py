"""`triton boot`: the manifest by which firmware checks an image before it starts it."""

from __future__ import annotations

from pathlib import Path

from ...ir.safe_read import accessing
from ...ir.safe_write import PendingFiles
from ...runtime.boards.boot import boot_manifest, boot_sources
from ..console import print_json
from .options.packages import Boot


def boot(options: Boot) -> None:
    """Write the manifest, and the check in C if asked to; print the anchor.

    Raises:
        OptionError: the image cannot be read, or is empty.
    """
    with accessing(f"image '{options.file}'"):
        image = options.file.read_bytes()
    manifest, anchor = boot_manifest(image, options.block)
    output = options.output or Path(f"{options.file}.boot")
    with PendingFiles() as pending:
        pending.add(output, manifest)
        if options.sources is not None:
            pending.make_folder(options.sources)
            for name, content in boot_sources().items():
                pending.add(options.sources / name, content)
    if options.json:
        print_json({"anchor": anchor.hex(), "manifest": str(output)})
    else:
        print(anchor.hex())
