"""Places that this kernel lacks: the line that says which Linux has them, once something else failed there."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from pyebpf.errors import NotSupported
from pyebpf.features import Features, Support
from pyebpf.uapi.errnos import errno_name

if TYPE_CHECKING:
    from pyebpf.specs import AttachSpec

__all__ = ["lacking"]


def lacking(place: AttachSpec, doing: str, number: int) -> NotSupported | None:
    """The error for `doing` ("loading program p"), refused with errno `number`, where this kernel lacks `place`.

    None where it has the place, or could not tell.
    """
    wanted = place.requirement
    # To a kernel what it does not know is a wrong number; what it knows may be one, too, so that it is asked.
    if wanted is None or number != errno.EINVAL or Features().ask(wanted.feature) is not Support.NO:
        return None
    return NotSupported(
        f"{doing}: this kernel ({os.uname().release}) has no {wanted.name}, for which it takes Linux {wanted.release} "
        f"or later{f' with {wanted.config}' if wanted.config else ''}: {wanted.alternative} ({errno_name(number)})",
        number,
    )
