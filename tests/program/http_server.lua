-- http_server.lua -- a web server on the loopback for test_download.lua: one request after another, with faults
--
--   mtorch tests/program/http_server.lua FOLDER   writes its port to FOLDER/port, serves FOLDER's files; /quit ends it
--
-- /file supports ranges, /plain/file does not, /cut/file ends after half of the response; every request is a line
-- in FOLDER/log.
local ffi = require 'ffi'
ffi.cdef [[
  struct mt_address { uint16_t family, port; uint32_t address; char zero[8]; };
  int socket(int, int, int);
  int bind(int, const struct mt_address *, unsigned);
  int getsockname(int, struct mt_address *, unsigned *);
  int listen(int, int);
  int accept(int, void *, void *);
  long recv(int, char *, size_t, int);
  long send(int, const char *, size_t, int);
  int shutdown(int, int);
  int close(int);
  unsigned alarm(unsigned);
]]
local C, folder = ffi.C, arg[1]
C.alarm(100) -- the server ends after 100 s in any case

local function swapped(port) return bit.bor(bit.lshift(bit.band(port, 255), 8), bit.rshift(port, 8)) end
local function read(path)
  local file = io.open(path, 'rb')
  if not file then return end
  local text = file:read '*a'
  file:close()
  return text
end

local listener = C.socket(2, 1, 0)
local address = ffi.new('struct mt_address', {2, 0, 0x0100007f})
local size = ffi.new('unsigned[1]', ffi.sizeof(address))
assert(C.bind(listener, address, ffi.sizeof(address)) == 0 and C.listen(listener, 16) == 0)
C.getsockname(listener, address, size)
local out = assert(io.open(folder .. '/port.new', 'w'))
out:write(swapped(address.port))
out:close()
os.rename(folder .. '/port.new', folder .. '/port')

local buffer = ffi.new('char[65536]')
local function answer(connection)
  local request = ''
  while not request:find('\r\n\r\n', 1, true) do
    local n = tonumber(C.recv(connection, buffer, 65536, 0))
    if n <= 0 then return end
    request = request .. ffi.string(buffer, n)
  end
  local path = request:match '^GET (%S+)'
  local from = tonumber(request:match 'Range: bytes=(%d+)%-')
  local log = assert(io.open(folder .. '/log', 'a'))
  log:write(path, from and (' from ' .. from) or '', '\n')
  log:close()
  if path == '/quit' then os.exit(0) end
  local fault, name = path:match '^/(%a+)/([^/]+)$'
  local text = read(folder .. '/' .. (name or path:sub(2)))
  local head, body = '404 Not Found', 'there is no such file'
  if text and from and fault ~= 'plain' then
    head, body = from < #text and '206 Partial Content' or '416 Range Not Satisfiable', text:sub(from + 1)
    head = head .. ('\r\nContent-Range: bytes %d-%d/%d'):format(from, #text - 1, #text)
  elseif text then
    head, body = '200 OK', text
  end
  head = ('HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n'):format(head, #body)
  if fault == 'cut' then body = body:sub(1, math.floor(#body / 2)) end
  local response, at = head .. body, 0
  while at < #response do
    local n = tonumber(C.send(connection, ffi.cast('const char *', response) + at, #response - at, 0x4000))
    if n <= 0 then return end
    at = at + n
  end
  C.shutdown(connection, 1)
  C.recv(connection, buffer, 65536, 0) -- waits until the client has read it
end

while true do
  local connection = C.accept(listener, nil, nil)
  answer(connection)
  C.close(connection)
end
