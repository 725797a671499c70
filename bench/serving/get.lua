-- Prints what the summary needs.
done = function(summary, latency)
  local e = summary.errors
  io.write(string.format("RESULT %d %d %f %f %f\n", summary.requests, e.connect + e.read + e.write + e.status + e.timeout,
                         summary.duration / 1e6, latency:percentile(50) / 1e6, latency:percentile(99) / 1e6))
end
