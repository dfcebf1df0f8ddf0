"""SCSI commands: the names of their opcodes and results, and what is to be there for probes of them."""

from __future__ import annotations

from typing import Any

from pyebpf import NotFound, NotSupported

#: include/scsi/scsi_proto.h
OPCODES = {
    0x00: "TEST_UNIT_READY",
    0x01: "REZERO_UNIT",
    0x03: "REQUEST_SENSE",
    0x04: "FORMAT_UNIT",
    0x08: "READ_6",
    0x0A: "WRITE_6",
    0x12: "INQUIRY",
    0x15: "MODE_SELECT",
    0x16: "RESERVE",
    0x17: "RELEASE",
    0x1A: "MODE_SENSE",
    0x1B: "START_STOP",
    0x1D: "SEND_DIAGNOSTIC",
    0x1E: "ALLOW_MEDIUM_REMOVAL",
    0x25: "READ_CAPACITY",
    0x28: "READ_10",
    0x2A: "WRITE_10",
    0x2E: "WRITE_VERIFY",
    0x2F: "VERIFY",
    0x35: "SYNCHRONIZE_CACHE",
    0x3B: "WRITE_BUFFER",
    0x3C: "READ_BUFFER",
    0x41: "WRITE_SAME",
    0x42: "UNMAP",
    0x43: "READ_TOC",
    0x4A: "GET_EVENT_STATUS_NOTIFICATION",
    0x4C: "LOG_SELECT",
    0x4D: "LOG_SENSE",
    0x55: "MODE_SELECT_10",
    0x5A: "MODE_SENSE_10",
    0x5E: "PERSISTENT_RESERVE_IN",
    0x5F: "PERSISTENT_RESERVE_OUT",
    0x7F: "VARIABLE_LENGTH_CMD",
    0x85: "ATA_16",
    0x88: "READ_16",
    0x89: "COMPARE_AND_WRITE",
    0x8A: "WRITE_16",
    0x8E: "WRITE_VERIFY_16",
    0x8F: "VERIFY_16",
    0x91: "SYNCHRONIZE_CACHE_16",
    0x93: "WRITE_SAME_16",
    0x94: "ZBC_OUT",
    0x95: "ZBC_IN",
    0x9C: "WRITE_ATOMIC_16",
    0x9E: "SERVICE_ACTION_IN_16",
    0xA0: "REPORT_LUNS",
    0xA1: "ATA_12",
    0xA3: "MAINTENANCE_IN",
    0xA4: "MAINTENANCE_OUT",
    0xA8: "READ_12",
    0xAA: "WRITE_12",
}
#: include/scsi/scsi_status.h: what the host adapter says, by its number; what the device says (SAM_STAT_ in front).
HOST_BYTES = (
    "DID_OK",
    "DID_NO_CONNECT",
    "DID_BUS_BUSY",
    "DID_TIME_OUT",
    "DID_BAD_TARGET",
    "DID_ABORT",
    "DID_PARITY",
    "DID_ERROR",
    "DID_RESET",
    "DID_BAD_INTR",
    "DID_PASSTHROUGH",
    "DID_SOFT_ERROR",
    "DID_IMM_RETRY",
    "DID_REQUEUE",
    "DID_TRANSPORT_DISRUPTED",
    "DID_TRANSPORT_FAILFAST",
    "DID_TARGET_FAILURE",
    "DID_NEXUS_FAILURE",
    "DID_ALLOC_FAILURE",
    "DID_MEDIUM_ERROR",
    "DID_TRANSPORT_MARGINAL",
)
STATUS_BYTES = {
    0x00: "GOOD",
    0x02: "CHECK_CONDITION",
    0x04: "CONDITION_MET",
    0x08: "BUSY",
    0x10: "INTERMEDIATE",
    0x14: "INTERMEDIATE_CONDITION_MET",
    0x18: "RESERVATION_CONFLICT",
    0x22: "COMMAND_TERMINATED",
    0x28: "TASK_SET_FULL",
    0x30: "ACA_ACTIVE",
    0x40: "TASK_ABORTED",
}
MISSING = "the SCSI driver is not loaded: modprobe scsi_mod, or this kernel has none"
UNTYPED = "this kernel does not describe the types of its SCSI driver, a module: Linux 5.11 and later do"


def opcode_name(opcode: int) -> str:
    """The kernel's name of an opcode; its number if it has none."""
    return OPCODES.get(opcode, f"[unknown: {opcode:#04x}]")


def host_byte_name(result: int) -> str:
    """The kernel's name of what the host adapter says in a result."""
    number = result >> 16 & 0xFF
    return HOST_BYTES[number] if number < len(HOST_BYTES) else f"[unknown: {number:#04x}]"


def status_byte_name(result: int) -> str:
    """The kernel's name of what the device says in a result."""
    number = result & 0xFF
    return f"SAM_STAT_{STATUS_BYTES[number]}" if number in STATUS_BYTES else f"[unknown: {number:#04x}]"


def check_driver(target: Any) -> None:
    """Raise NotFound with what to do where the driver is not there."""
    try:
        target.tracepoint_format("scsi", "scsi_dispatch_cmd_done")
    except NotFound as error:
        raise NotFound(MISSING) from error


def check_types(target: Any) -> None:
    """Raise NotSupported, too, where the driver's types are not known: for probes that look into a struct scsi_cmnd."""
    check_driver(target)
    try:
        target.raw_tracepoint("scsi_dispatch_cmd_done")
    except NotFound as error:
        raise NotSupported(UNTYPED) from error
