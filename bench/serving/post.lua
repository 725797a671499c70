-- Posts the lines of the file in TEXTS, one after the other, and prints what the summary needs.
local lines = {}
for line in io.lines(os.getenv("TEXTS")) do lines[#lines + 1] = line end
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
local n = math.random(#lines)
request = function()
  n = n % #lines + 1
  return wrk.format(nil, nil, nil, '{"instances": ["' .. lines[n] .. '"]}')
end
done = function(summary, latency)
  local e = summary.errors
  io.write(string.format("RESULT %d %d %f %f %f\n", summary.requests, e.connect + e.read + e.write + e.status + e.timeout,
                         summary.duration / 1e6, latency:percentile(50) / 1e6, latency:percentile(99) / 1e6))
end
