"""Exceptions by status, as `ExceptionWrapper.create_exception_from_status` makes them."""

from __future__ import annotations


class HailoRTException(Exception):  # noqa: N818 - the binding's own names
    pass


class HailoRTStatusException(Exception):  # noqa: N818
    """The C extension's, of which the layer above makes the others, but not everywhere."""


class HailoRTTimeout(HailoRTException):
    pass


class HailoRTStreamAborted(HailoRTException):
    pass


class HailoRTStreamAbortedByUser(HailoRTException):
    pass


class HailoRTInvalidOperationException(HailoRTException):
    pass


class HailoRTInvalidArgumentException(HailoRTException):
    pass


class HailoRTNotFoundException(HailoRTException):
    pass


class HailoRTInvalidHEFException(HailoRTException):
    pass


class HailoRTHEFNotCompatibleWithDevice(HailoRTException):
    pass


class HailoRTDriverOperationFailedException(HailoRTException):
    pass


class HailoCommunicationClosedException(HailoRTException):
    pass


STATUS = {
    "HAILO_INVALID_ARGUMENT": 2,
    "HAILO_TIMEOUT": 4,
    "HAILO_INVALID_OPERATION": 6,
    "HAILO_INVALID_HEF": 26,
    "HAILO_DRIVER_OPERATION_FAILED": 36,
    "HAILO_NOT_FOUND": 61,
    "HAILO_COMMUNICATION_CLOSED": 62,
    "HAILO_STREAM_ABORT": 63,
    "HAILO_OUT_OF_PHYSICAL_DEVICES": 74,
    "HAILO_INVALID_DRIVER_VERSION": 76,
    "HAILO_RPC_FAILED": 77,
    "HAILO_NOT_SUPPORTED": 79,
    "HAILO_QUEUE_IS_FULL": 82,
    "HAILO_HEF_FILE_CORRUPTED": 91,
    "HAILO_HEF_NOT_COMPATIBLE_WITH_DEVICE": 93,
    "HAILO_DEVICE_NOT_CONNECTED": 96,
    "HAILO_DEVICE_TEMPORARILY_UNAVAILABLE": 97,
}
_CLASSES = {
    "HAILO_TIMEOUT": (HailoRTTimeout, "Received a timeout - hailort has failed"),
    "HAILO_STREAM_ABORT": (HailoRTStreamAborted, "Stream was aborted"),
    "HAILO_INVALID_OPERATION": (
        HailoRTInvalidOperationException,
        "Invalid operation. See hailort.log for more information",
    ),
    "HAILO_INVALID_ARGUMENT": (HailoRTInvalidArgumentException, "Invalid argument."),
    "HAILO_NOT_FOUND": (HailoRTNotFoundException, "Item not found."),
    "HAILO_INVALID_HEF": (HailoRTInvalidHEFException, "Invalid HEF."),
    "HAILO_HEF_NOT_COMPATIBLE_WITH_DEVICE": (
        HailoRTHEFNotCompatibleWithDevice,
        "HEF file is not compatible with device.",
    ),
    "HAILO_DRIVER_OPERATION_FAILED": (
        HailoRTDriverOperationFailedException,
        "Failure in hailort driver ioctl. run 'dmesg | grep hailo' for more information",
    ),
    "HAILO_COMMUNICATION_CLOSED": (
        HailoCommunicationClosedException,
        "Communication closed failure. Check server-client connection",
    ),
}


def failure(status: str) -> HailoRTException:
    """The exception of a status."""
    if status in _CLASSES:
        kind, text = _CLASSES[status]
        return kind(text)
    return HailoRTException(
        f"libhailort failed with error: {STATUS[status]} ({status})"
    )


def bare(status: str) -> HailoRTStatusException:
    """The exception where no layer makes another of it: nothing but the number."""
    return HailoRTStatusException(str(STATUS[status]))
