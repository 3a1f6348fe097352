-- Sends the requests of a file in order, in a loop, and prints a summary as JSON.
-- Each line of the file is a method, a path and a body, separated by tabs. With an API key as second
-- argument, each request has the key and a trace id of its own.

local requests, sent = {}, 0

function init(arguments)
  local key = arguments[2] or ""
  wrk.headers["Content-Type"] = "application/json"
  for line in io.lines(arguments[1]) do
    local method, path, body = line:match("^(%u+)\t([^\t]+)\t(.*)$")
    if key ~= "" then
      wrk.headers["X-API-Key"] = key
      wrk.headers["Traceparent"] = string.format("00-%032x-%016x-01", #requests + 1, #requests)
    end
    requests[#requests + 1] = wrk.format(method, path, nil, body ~= "" and body or nil)
  end
end

function request()
  sent = sent + 1
  return requests[(sent - 1) % #requests + 1]
end

function done(summary, latency)
  io.write(string.format(
    '{"requests":%d,"duration_us":%d,"p99_us":%d,"rejected":%d,"failed":%d}\n',
    summary.requests, summary.duration, latency:percentile(99),
    summary.errors.status,
    summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout))
end
