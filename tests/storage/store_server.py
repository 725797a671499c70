"""S3 and WebHDFS over files in memory, for tests: signatures are checked, lists come in pages of three, and answers fail as they are told to.

    store_server.py        prints "port PORT", and serves as long as its parent lives

    POST /faults           a JSON list of what happens to the next requests: "ok", "503", "drop" (no answer), "half" (half of the body), "403", "whole" (not
                           the part that is asked for), "late" (an error after the answer's status), "done" (as is asked, without an answer), "changes" (half, and the file is another one then), "no options" (a name node's that
                           knows none of renaming), "refused" (as HttpFS does), and what ends with "Exception" (as a name node or a data node does)
    POST /objects/KEY      puts an object, of S3's buckets "bucket", "bucket-2" and "far" and of WebHDFS alike
    POST /clear            forgets all
    GET /sent              bytes of bodies so far
    GET /uploads           how many have begun and not ended

AWS_ACCESS_KEY_ID is "test", or "old", whose time has passed; the secret key is "secret". The bucket "far" is in the region "eu-west-3" alone. An
instance's service of credentials is at /latest.
"""
import functools
import hashlib
import hmac
import json
import os
import re
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from xml.sax.saxutils import escape as xml_escape

objects = {}  # key: (bytes, entity tag, milliseconds)
uploads = {}  # id: its parts by number; None when it has ended
faults = []
sent = [0]
lock = threading.Lock()


def put(key, content):
    objects[key] = (content, '"' + hashlib.md5(content).hexdigest() + '"', int(time.time() * 1000))


def signature_of(handler, path, query, body):
    """What AWS's documents say, from the request alone."""
    words = dict(part.strip().split("=", 1) for part in handler.headers["Authorization"].split(" ", 1)[1].split(","))
    key, date, region, service, _ = words["Credential"].split("/")
    canonical_query = "&".join(f"{urllib.parse.quote(k, safe='-_.~')}={urllib.parse.quote(v, safe='-_.~')}" for k, v in sorted(query))
    headers = "".join(f"{name}:{' '.join(handler.headers[name].split())}\n" for name in words["SignedHeaders"].split(";"))
    said = handler.headers["x-amz-content-sha256"]
    if hashlib.sha256(body).hexdigest() != said:
        return key, "the payload's hash", words["Signature"]
    canonical = "\n".join([handler.command, urllib.parse.quote(path, safe="/-_.~"), canonical_query, headers, words["SignedHeaders"], said])
    text = "\n".join(["AWS4-HMAC-SHA256", handler.headers["x-amz-date"], f"{date}/{region}/{service}/aws4_request",
                      hashlib.sha256(canonical.encode()).hexdigest()])
    secret = b"AWS4secret"
    for part in (date, region, service, "aws4_request", text):
        secret = hmac.new(secret, part.encode(), hashlib.sha256).digest()
    return key, secret.hex(), words["Signature"]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", headers=(), length=None):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command == "HEAD":
            return
        if self.fault in ("half", "changes") and len(body) > 1:
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
            return
        self.wfile.write(body)
        with lock:
            sent[0] += len(body)

    def s3_error(self, status, code, message):
        self.answer(status, f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>".encode())

    def handle_any(self):
        url = urllib.parse.urlsplit(self.path)
        path = urllib.parse.unquote(url.path)
        query = urllib.parse.parse_qsl(url.query, keep_blank_values=True)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.fault = "ok"
        if path == "/faults":
            with lock:
                faults[:] = json.loads(body)
            return self.answer(200)
        if path == "/clear":
            objects.clear()
            faults.clear()
            return self.answer(200)
        if path == "/credentials":
            credentials = {"AccessKeyId": "for " + self.headers.get("Authorization", "nobody"), "SecretAccessKey": "secret"}
            return self.answer(200, json.dumps(credentials).encode())
        if path == "/sent":
            return self.answer(200, str(sent[0]).encode())
        if path == "/uploads":
            return self.answer(200, str(sum(parts is not None for parts in uploads.values())).encode())
        if path.startswith("/objects/"):
            put(path[len("/objects/"):], body)
            return self.answer(200)
        with lock:
            self.fault = faults.pop(0) if faults else "ok"
        if self.fault == "drop":
            self.close_connection = True
            return None
        if self.fault == "slow 503":
            time.sleep(1.2)
        if self.fault in ("503", "slow 503"):
            return self.s3_error(503, "SlowDown", "Please reduce your request rate.")
        if self.fault == "403":
            return self.s3_error(403, "AccessDenied", "Access Denied")
        if self.fault.endswith("Exception"):
            return self.hdfs_error(403, self.fault, None if self.fault == "NullPointerException" else "not now")
        if self.fault == "refused":
            return self.hdfs_error(500, "AccessControlException", "Permission denied: user=tester")
        if path == "/latest/api/token":
            return self.answer(200, b"token")
        if path.startswith("/latest/meta-data/iam/security-credentials/"):
            credentials = {"AccessKeyId": "of " + path.rsplit("/", 1)[1], "SecretAccessKey": "secret", "Token": "t"}
            return self.answer(200, b"role\n" if path.endswith("/") else json.dumps(credentials).encode())
        if path.startswith("/webhdfs/v1/") or path.startswith("/data/"):
            return self.webhdfs(path, dict(query), body)
        return self.s3(path, query, body)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = handle_any

    def s3(self, path, query, body):
        if "Authorization" not in self.headers:
            return self.s3_error(403, "AccessDenied", "Access Denied")
        key, expected, signature = signature_of(self, path, query, body)
        if key == "old":
            return self.s3_error(400, "ExpiredToken", "The provided token has expired.")
        if key != "test":
            return self.s3_error(403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.")
        if signature != expected:
            return self.s3_error(403, "SignatureDoesNotMatch", "The request signature we calculated does not match.")
        bucket, _, name = path[1:].partition("/")
        if bucket == "far" and "/eu-west-3/s3/" not in self.headers["Authorization"]:
            if self.command == "HEAD":
                return self.answer(301, headers=[("x-amz-bucket-region", "eu-west-3")])
            return self.answer(400, b"<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-3</Region></Error>")
        if bucket not in ("bucket", "bucket-2", "far"):
            return self.s3_error(404, "NoSuchBucket", "The specified bucket does not exist")
        query = dict(query)
        if "list-type" in query:
            return self.s3_list(query)
        if "uploads" in query or "uploadId" in query:
            return self.s3_parts(name, query, body)
        if self.command == "PUT":
            put(name, body)
            return self.answer(200)
        if self.command == "DELETE":
            objects.pop(name, None)
            return self.answer(204)
        if name not in objects:
            return self.s3_error(404, "NoSuchKey", "The specified key does not exist.")
        content, tag, _ = objects[name]
        if self.headers.get("If-Match", tag) != tag:
            return self.s3_error(412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold")
        if "Range" in self.headers and self.fault != "whole":
            first, last = self.headers["Range"][len("bytes="):].split("-")
            return self.answer(206, content[int(first):int(last) + 1], [("ETag", tag)])
        return self.answer(200, content, [("ETag", tag)])

    def s3_parts(self, name, query, body):
        if "uploads" in query:
            uploads[str(len(uploads) + 1)] = {}
            return self.answer(200, f"<InitiateMultipartUploadResult><UploadId>{len(uploads)}</UploadId></InitiateMultipartUploadResult>".encode())
        parts = uploads.get(query["uploadId"])
        if parts is None:
            return self.s3_error(404, "NoSuchUpload", "The specified upload does not exist.")
        if self.command == "PUT":
            number = int(query["partNumber"])
            parts[number] = body
            return self.answer(200, headers=[("ETag", f'"part-{number}"')])
        if self.command == "DELETE":
            uploads[query["uploadId"]] = None
            return self.answer(204)
        # Amazon answers 200 before it knows.
        if self.fault == "late":
            return self.s3_error(200, "InternalError", "We encountered an internal error. Please try again.")
        named = re.findall(r"<PartNumber>(\d+)</PartNumber><ETag>(.*?)</ETag>", body.decode())
        if named != [(str(number), f'"part-{number}"') for number in sorted(parts)] or any(
            len(parts[number]) < 5 << 20 for number in sorted(parts)[:-1]
        ):
            return self.s3_error(400, "InvalidPart", "One or more of the specified parts could not be found.")
        put(name, b"".join(parts[number] for number in sorted(parts)))
        uploads[query["uploadId"]] = None
        if self.fault == "done":
            self.close_connection = True
            return None
        return self.answer(200, b"<CompleteMultipartUploadResult/>")

    def s3_list(self, query):
        prefix = query["prefix"]
        found = {}
        for key in objects:
            if key.startswith(prefix):
                head, slash, _ = key[len(prefix):].partition("/")
                found[prefix + head + slash] = bool(slash)
        names = [name for name in sorted(found) if name > query.get("continuation-token", "")]
        page = names[: min(3, int(query.get("max-keys", 1000)))]
        text = "<?xml version='1.0' encoding='UTF-8'?><ListBucketResult xmlns='http://s3.amazonaws.com/doc/2006-03-01/'>"
        escape = xml_escape
        if "encoding-type" in query:  # as Amazon does: a space is a plus
            text += "<EncodingType>url</EncodingType>"
            escape = functools.partial(urllib.parse.quote_plus, safe="/*-._")
        for name in page:
            if found[name]:
                text += f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>"
            else:
                content, tag, _ = objects[name]
                text += f"<Contents><Key>{escape(name)}</Key><Size>{len(content)}</Size><ETag>{xml_escape(tag)}</ETag></Contents>"
        if len(page) < len(names):
            text += f"<IsTruncated>true</IsTruncated><NextContinuationToken>{xml_escape(page[-1])}</NextContinuationToken>"
        self.answer(200, (text + "</ListBucketResult>").encode())

    def hdfs_error(self, status, exception, message):
        self.answer(status, json.dumps({"RemoteException": {"exception": exception, "javaClassName": exception, "message": message}}).encode())

    def hdfs_status(self, name, suffix):
        if name in objects:
            content, _, time_of = objects[name]
            return {"type": "FILE", "length": len(content), "modificationTime": time_of, "pathSuffix": suffix}
        return {"type": "DIRECTORY", "length": 0, "modificationTime": 0, "pathSuffix": suffix}

    def webhdfs(self, path, query, body):
        if query.get("user.name") == "stranger":
            return self.hdfs_error(403, "AccessControlException", "Permission denied: user=stranger, access=READ")
        on_data_node = path.startswith("/data/")
        name = path[len("/data/" if on_data_node else "/webhdfs/v1/"):].rstrip("/")
        is_folder = name == "" or any(key.startswith(name + "/") for key in objects)
        op = query["op"]
        if op == "CREATE":
            if not on_data_node:
                return self.answer(307, headers=[("Location", self.elsewhere(name, query))])
            put(name, body)
            return self.answer(201)
        if op == "RENAME":
            to = query["destination"].lstrip("/")
            if query.get("renameoptions") == "OVERWRITE" and self.fault != "no options":
                if name not in objects:
                    return self.hdfs_error(404, "FileNotFoundException", f"rename source /{name} is not found.")
                objects[to] = objects.pop(name)
                return self.answer(200)
            if name in objects and to not in objects:
                objects[to] = objects.pop(name)
                return self.answer(200, b'{"boolean": true}')
            return self.answer(200, b'{"boolean": false}')
        if op == "DELETE":
            for key in [key for key in objects if key == name or key.startswith(name + "/")]:
                del objects[key]
            return self.answer(200, b'{"boolean": true}')
        if name not in objects and not is_folder:
            return self.hdfs_error(404, "FileNotFoundException", f"File does not exist: /{name}")
        if op == "GETFILESTATUS":
            return self.answer(200, json.dumps({"FileStatus": self.hdfs_status(name, "")}).encode())
        if op == "LISTSTATUS":
            inside = sorted({key[len(name) + bool(name):].split("/")[0] for key in objects if key.startswith(name + "/" if name else "")})
            files = [self.hdfs_status(f"{name}/{one}" if name else one, one) for one in inside]
            return self.answer(200, json.dumps({"FileStatuses": {"FileStatus": files}}).encode())
        if not on_data_node:
            return self.answer(307, headers=[("Location", self.elsewhere(name, query))])
        content = objects[name][0]
        first = int(query.get("offset", 0))
        if self.fault == "changes":
            time.sleep(0.005)  # the version is a time in milliseconds
            put(name, content.swapcase())
        return self.answer(200, content[first:first + int(query.get("length", len(content)))])

    def elsewhere(self, name, query):
        return f"http://127.0.0.1:{self.server.server_port}/data/{urllib.parse.quote(name)}?{urllib.parse.urlencode(query)}"


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print("port", server.server_port, flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
parent = os.getppid()
while os.getppid() == parent:
    time.sleep(0.2)
