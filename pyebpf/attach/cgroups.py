"""`@bpf.cgroup_connect4("/sys/fs/cgroup/mine")` and its like, one for each row of `specs.attach.cgroups.HOOKS`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from pyebpf.attach.decorators import Decorators, is_decorated

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from typing import ParamSpec, Protocol, Self

    from pyebpf.attach.decorators import VerdictDecorator
    from pyebpf.module.probe import Probe

    P = ParamSpec("P")

    class CgroupDecorator(Protocol):
        """A decorator of programs at a hook of control groups.

        They run in those groups, each named by its directory; without one, where `probe.attach(directory)` says.
        """

        @overload
        def __call__(self, function: Callable[P, int], /) -> Probe[P, int]: ...
        @overload
        def __call__(self, function: Probe[P, int], /) -> Probe[P, int]: ...
        @overload
        def __call__(self, *cgroups: str | os.PathLike[str]) -> VerdictDecorator: ...


__all__ = ["CgroupDecorators"]


class Hook:
    """A method of Module: the decorator of one hook, whose name is the attribute's without "cgroup_"."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.decorator = name
        self.hook = name.removeprefix("cgroup_")

    @overload
    def __get__(self, module: None, owner: type) -> Self: ...
    @overload
    def __get__(self, module: CgroupDecorators, owner: type) -> CgroupDecorator: ...
    def __get__(self, module: CgroupDecorators | None, owner: type) -> Any:
        if module is None:
            return self
        from pyebpf.specs.attach import cgroups as specs

        hook = specs.HOOKS[self.hook]
        spec: type[specs.CgroupAttachSpec] = getattr(specs, hook.spec)
        make = module._verdict

        def decorate(*cgroups: Any) -> Any:
            if len(cgroups) == 1 and is_decorated(cgroups[0]):
                return decorate()(cgroups[0])
            paths = [specs.directory(each) for each in cgroups]
            places = [spec(self.hook, path) for path in paths] or [spec(self.hook)]
            return make(self.decorator, tuple(paths), places)

        decorate.__name__ = self.decorator
        least, most = hook.results
        results = f"{least} or {most}" if least < most == 1 else f"{least} to {most}" if least < most else str(most)
        decorate.__doc__ = f"Run in control groups at {hook.text}. Programs return {results}."
        return decorate


class CgroupDecorators(Decorators):
    """Programs of control groups. Each decorator takes directories, or none: `probe.attach(directory)` names it."""

    cgroup_skb_ingress = Hook()
    cgroup_skb_egress = Hook()
    cgroup_sock_create = Hook()
    cgroup_sock_release = Hook()
    cgroup_post_bind4 = Hook()
    cgroup_post_bind6 = Hook()
    cgroup_bind4 = Hook()
    cgroup_bind6 = Hook()
    cgroup_connect4 = Hook()
    cgroup_connect6 = Hook()
    cgroup_connect_unix = Hook()
    cgroup_sendmsg4 = Hook()
    cgroup_sendmsg6 = Hook()
    cgroup_sendmsg_unix = Hook()
    cgroup_recvmsg4 = Hook()
    cgroup_recvmsg6 = Hook()
    cgroup_recvmsg_unix = Hook()
    cgroup_getpeername4 = Hook()
    cgroup_getpeername6 = Hook()
    cgroup_getpeername_unix = Hook()
    cgroup_getsockname4 = Hook()
    cgroup_getsockname6 = Hook()
    cgroup_getsockname_unix = Hook()
    cgroup_getsockopt = Hook()
    cgroup_setsockopt = Hook()
    cgroup_sysctl = Hook()
    cgroup_device = Hook()
    cgroup_sock_ops = Hook()
