"""A client of the Open Inference Protocol v2 over HTTP, with binary tensors, for ``sullae serve`` and any other server of it.

tritonclient works with ``sullae serve`` as well, and has more: gRPC, streams, futures."""

import base64
import http.client
import json
import ssl
import threading
import urllib.parse
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy

from ..errors import Error, InputError

_TYPES = {
    "bool": "BOOL",
    "uint8": "UINT8",
    "uint16": "UINT16",
    "uint32": "UINT32",
    "uint64": "UINT64",
    "int8": "INT8",
    "int16": "INT16",
    "int32": "INT32",
    "int64": "INT64",
    "float16": "FP16",
    "float32": "FP32",
    "float64": "FP64",
}
_DTYPES = {name: numpy.dtype(dtype) for dtype, name in _TYPES.items()}


class RequestError(Error):
    """The server refused a request, or could not be asked. ``status``: the one of HTTP; 0 where there was no answer."""

    def __init__(self, message: str, status: int):
        super().__init__(message)
        self.status = status

    def __reduce__(self):
        return type(self), (*self.args, self.status)  # as PeerError's


class Client:
    """Asks one server. Any thread may use it; each has a connection of its own, which stays open.

    ``address``: "host:port", "host" for port 8000, or an URL, "https://host:port". ``token``: a bearer token of the server's file. ``timeout``: of every
    request, in seconds. ``ssl_context``: as ssl.create_default_context() makes, for certificates of one's own."""

    def __init__(
        self,
        address: str = "localhost:8000",
        *,
        token: Optional[str] = None,
        timeout: float = 60.0,
        ssl_context: Optional[ssl.SSLContext] = None,
    ):
        self._secure, self._host, self._port = _place_of(address)
        self._timeout = timeout
        self._context = ssl_context
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._local = threading.local()

    def is_server_live(self) -> bool:
        return self._request("GET", "/v2/health/live", allowed=(503,))[0] == 200

    def is_server_ready(self) -> bool:
        return self._request("GET", "/v2/health/ready", allowed=(503,))[0] == 200

    def is_model_ready(self, model: str, version: str = "") -> bool:
        return self._request("GET", f"{_path(model, version)}/ready", allowed=(400, 404, 503))[0] == 200

    def get_server_metadata(self) -> Dict[str, Any]:
        return json.loads(self._request("GET", "/v2")[2])

    def get_model_metadata(self, model: str, version: str = "") -> Dict[str, Any]:
        """Its versions, inputs and outputs."""
        return json.loads(self._request("GET", _path(model, version))[2])

    def infer(self, model: str, inputs: Mapping[str, Any], version: str = "") -> Dict[str, numpy.ndarray]:
        """The outputs, by name. ``inputs``: by name, numpy arrays or what becomes one (tensors of torch, lists, whose fractions are float32; what the model gives as bfloat16 comes as float32); texts and files
        (str, bytes, or lists of them) are of the type BYTES, and come back as arrays of bytes. Raises RequestError."""
        if not isinstance(inputs, Mapping):
            raise InputError(f"infer: inputs: a {type(inputs).__name__}: expected a dict, {{name: array}}")
        described, binary = [], []
        for name, value in inputs.items():
            header, data = _encode(name, value)
            described.append(header)
            binary.append(data)
        head = json.dumps({"inputs": described, "parameters": {"binary_data_output": True}}).encode()
        headers = {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": str(len(head))}
        _, answer, body = self._request("POST", f"{_path(model, version)}/infer", b"".join([head, *binary]), headers)
        length = int(answer.get("Inference-Header-Content-Length") or len(body))
        return _decode(json.loads(body[:length])["outputs"], body[length:])

    def predict(self, model: str, instances: Sequence[Any], version: str = "") -> List[Any]:
        """TensorFlow Serving's predict API: a prediction for each instance, which are numbers, texts, files (bytes), arrays, and lists and
        dicts of them. Raises RequestError."""
        if isinstance(instances, (str, bytes)):
            raise RequestError(f"instances: a {type(instances).__name__}: expected a list of instances", 0)
        path = f"/v1/models/{_quoted(model)}" + (f"/versions/{_quoted(version)}" if version else "") + ":predict"
        body = json.dumps({"instances": list(instances)}, default=_plain).encode()
        return json.loads(self._request("POST", path, body, {"Content-Type": "application/json"})[2])["predictions"]

    def close(self) -> None:
        """Closes this thread's connection."""
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _connect(self) -> http.client.HTTPConnection:
        if self._secure:
            return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=self._context)
        return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)

    def _request(self, method: str, path: str, body: Optional[bytes] = None, headers=None, allowed=()) -> Tuple[int, Any, bytes]:
        fresh = getattr(self._local, "connection", None) is None
        if fresh:
            self._local.connection = self._connect()
        connection = self._local.connection
        try:
            connection.request(method, path, body, {**self._headers, **(headers or {})})
            response = connection.getresponse()
            data = response.read()
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError) as error:
            self.close()
            if not fresh:  # the server had closed it meanwhile, as it may
                return self._request(method, path, body, headers, allowed)
            raise RequestError(f"{self._host}:{self._port}: {method} {path}: {error}", 0) from error
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise RequestError(f"{self._host}:{self._port}: {method} {path}: {error}", 0) from error
        if response.status >= 300 and response.status not in allowed:
            raise RequestError(f"{self._host}:{self._port}: {method} {path}: {response.status}: {_reason(data)}", response.status)
        return response.status, response.headers, data


def _place_of(address: str) -> Tuple[bool, str, int]:
    """Whether it is secure, its host and its port."""
    bare = "//" not in address
    try:
        url = urllib.parse.urlsplit(f"http://{address}" if bare else address)
        secure, host = url.scheme == "https", url.hostname
        port = url.port or (8000 if bare else 443 if secure else 80)
    except ValueError:
        host = None
    if not host or url.scheme not in ("http", "https"):
        raise InputError(f"Client: {address!r}: expected host:port, or an URL as https://host:port")
    return secure, host, port


def _quoted(part: Any) -> str:
    return urllib.parse.quote(str(part), safe="")


def _path(model: str, version: str) -> str:
    return f"/v2/models/{_quoted(model)}" + (f"/versions/{_quoted(version)}" if version else "")


def _reason(data: bytes) -> str:
    try:
        return json.loads(data)["error"]
    except (ValueError, KeyError, TypeError):
        return data.decode(errors="replace")


def _plain(instance: Any) -> Any:
    if isinstance(instance, (bytes, bytearray)):
        return {"b64": base64.b64encode(instance).decode()}  # files, as TensorFlow Serving takes them
    if hasattr(instance, "tolist"):
        return instance.tolist()
    raise RequestError(f"instances: a {type(instance).__name__}: expected numbers, texts, bytes, arrays, and lists and dicts of them", 0)


def _encode(name: str, value: Any) -> Tuple[Dict[str, Any], bytes]:
    datatype = None
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":  # of which numpy has none
            import torch

            datatype, value = "BF16", value.contiguous().view(torch.int16)
        value = value.numpy()
    leaf = value
    while isinstance(leaf, (list, tuple)) and leaf:
        leaf = leaf[0]
    array = numpy.asarray([value] if isinstance(value, (str, bytes)) else value)
    if array.dtype == numpy.float64 and type(leaf) in (float, int):
        array = array.astype(numpy.float32)  # Python has one kind, and models mostly the other
    if array.dtype.kind == "U" or array.dtype.kind == "S" or array.dtype == object:
        # numpy's own bytes lose zeros at the end, so what was given is taken.
        flat = numpy.array([value] if isinstance(value, (str, bytes)) else value, dtype=object).ravel()
        for item in flat:
            if not isinstance(item, (str, bytes)):
                raise RequestError(f"input '{name}': a {type(item).__name__} among texts: expected str or bytes", 0)
        items = [item.encode() if isinstance(item, str) else bytes(item) for item in flat]
        data = b"".join(len(item).to_bytes(4, "little") + item for item in items)
        datatype = "BYTES"
    elif array.dtype.name in _TYPES:
        datatype = datatype or _TYPES[array.dtype.name]
        data = numpy.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
    else:
        raise RequestError(f"input '{name}': {array.dtype} tensors cannot be sent", 0)
    return {
        "name": name,
        "datatype": datatype,
        "shape": list(array.shape),
        "parameters": {"binary_data_size": len(data)},
    }, data


def _decode(described: List[Dict[str, Any]], binary: bytes) -> Dict[str, numpy.ndarray]:
    outputs, begin = {}, 0
    for output in described:
        size = output.get("parameters", {}).get("binary_data_size")
        if size is None:
            flat: Any = output["data"]
        else:
            part = binary[begin : begin + size]
            begin += size
            flat = _items(part) if output["datatype"] == "BYTES" else part
        if output["datatype"] == "BF16" and isinstance(flat, bytes):
            # The upper half of a float32, and numpy has that.
            wide = numpy.frombuffer(flat, "<u2").astype(numpy.uint32) << 16
            outputs[output["name"]] = wide.view(numpy.float32).reshape(output["shape"])
            continue
        if output["datatype"] != "BYTES" and output["datatype"] not in _DTYPES:
            raise RequestError(f"output '{output['name']}': numpy has no type for {output['datatype']}", 0)
        if output["datatype"] == "BYTES":
            array = numpy.empty(len(flat), object)
            array[:] = [item.encode() if isinstance(item, str) else item for item in flat]
        elif isinstance(flat, bytes):
            dtype = _DTYPES[output["datatype"]]
            array = numpy.frombuffer(flat, dtype.newbyteorder("<")).astype(dtype)
        else:
            array = numpy.asarray(flat, _DTYPES[output["datatype"]])
        outputs[output["name"]] = array.reshape(output["shape"])
    return outputs


def _items(data: bytes) -> List[bytes]:
    items, begin = [], 0
    while begin < len(data):
        length = int.from_bytes(data[begin : begin + 4], "little")
        items.append(data[begin + 4 : begin + 4 + length])
        begin += 4 + length
    return items
