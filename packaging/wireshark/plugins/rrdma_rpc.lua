-- A Wireshark dissector for frames of rrdma::rpc (docs/rpc-protocol.md) inside SENDs of RoCE. The package installs it
-- in Wireshark's folder for Lua plugins; otherwise use wireshark -X lua_script:rrdma_rpc.lua. Filter by "rrdma_rpc",
-- "rrdma_rpc.call == 0x10000", "rrdma_rpc.status != 0". Methods are sent as numbers: add the names of yours to the
-- preferences of the protocol (Service/Method, separated by blanks).

local rpc = Proto("rrdma_rpc", "RRDMA RPC")

rpc.prefs.methods = Pref.string("Methods", "", "Paths (Service/Method) whose numbers are shown by name, separated by blanks")

local KINDS = {"CALL", "REPLY", "ITEM", "WINDOW", "CANCEL", "GO AWAY", "PART", "PROOF", "PACK"}
local CALL, REPLY, ITEM, WINDOW, PACK = 1, 2, 3, 4, 9
local CODES = {
  [0] = "ok", "cancelled", "unknown", "invalid argument", "deadline exceeded", "not found", "already exists", "permission denied",
  "resource exhausted", "failed precondition", "aborted", "out of range", "unimplemented", "internal", "unavailable", "data loss",
  "unauthenticated"}
local OFFERED, LENT, WRITTEN, LAST, MORE, REFUSED, EMPTY = 1, 2, 4, 8, 16, 32, 64
-- The valid flags of each kind.
local FLAGS = {OFFERED + LENT, WRITTEN + REFUSED, LAST + MORE + EMPTY, 0, 0, 0, 0, 0, 0}
local MESSAGE_HEADER, HEAD, PACKED_HEAD, LIMIT = 8, 8, 4, 4096

local f = {
  credits = ProtoField.uint16("rrdma_rpc.credits", "Credits"),
  length = ProtoField.uint32("rrdma_rpc.length", "Length"),
  kind = ProtoField.uint8("rrdma_rpc.kind", "Kind", base.DEC, KINDS),
  flags = ProtoField.uint8("rrdma_rpc.flags", "Flags", base.HEX),
  offered = ProtoField.bool("rrdma_rpc.flags.offered", "Offered", 8, nil, OFFERED),
  lent = ProtoField.bool("rrdma_rpc.flags.lent", "Lent", 8, nil, LENT),
  written = ProtoField.bool("rrdma_rpc.flags.written", "Written", 8, nil, WRITTEN),
  last = ProtoField.bool("rrdma_rpc.flags.last", "Last", 8, nil, LAST),
  more = ProtoField.bool("rrdma_rpc.flags.more", "More", 8, nil, MORE),
  refused = ProtoField.bool("rrdma_rpc.flags.refused", "Refused", 8, nil, REFUSED),
  empty = ProtoField.bool("rrdma_rpc.flags.empty", "Empty", 8, nil, EMPTY),
  call = ProtoField.uint32("rrdma_rpc.call", "Call", base.HEX),
  method = ProtoField.uint64("rrdma_rpc.method", "Method", base.HEX),
  method_name = ProtoField.string("rrdma_rpc.method.name", "Method's path"),
  timeout = ProtoField.uint64("rrdma_rpc.timeout", "Timeout (ns; 0: none)"),
  schema = ProtoField.uint32("rrdma_rpc.schema", "Schema", base.HEX),
  window = ProtoField.uint32("rrdma_rpc.window", "Window"),
  address = ProtoField.uint64("rrdma_rpc.region.address", "Address", base.HEX),
  key = ProtoField.uint32("rrdma_rpc.region.key", "Key", base.HEX),
  size = ProtoField.uint32("rrdma_rpc.region.length", "Length"),
  status = ProtoField.uint8("rrdma_rpc.status", "Status", base.DEC, CODES),
  result = ProtoField.uint32("rrdma_rpc.written", "Octets written into the lent region"),
  message = ProtoField.string("rrdma_rpc.message", "Message"),
  details = ProtoField.bytes("rrdma_rpc.details", "Details"),
  metadata = ProtoField.string("rrdma_rpc.metadata", "Metadata"),
  body = ProtoField.bytes("rrdma_rpc.body", "Body"),
}
rpc.fields = f

-- The number of a method path: 64-bit FNV-1a.
local function number_of(path)
  local hash, prime = UInt64.fromhex("cbf29ce484222325"), UInt64.fromhex("00000100000001b3")
  for i = 1, #path do hash = hash:bxor(UInt64(path:byte(i), 0)) * prime end
  return hash:tohex()
end

local names = {}
function rpc.init()
  names = {}
  local known = "rrdma.Health/check rrdma.Reflection/list rrdma.Reflection/describe rrdma.Metrics/text rrdma.Versions/check "
  for path in (known .. rpc.prefs.methods):gmatch("%S+") do names[number_of(path)] = path end
end

-- Whether a message of rrdma::comm with a frame starts here.
local function is_frame(buffer)
  if buffer:len() < MESSAGE_HEADER + HEAD or buffer(0, 1):uint() ~= 1 or buffer(1, 1):uint() ~= 0 then return false end
  local length, kind = buffer(4, 4):le_uint(), buffer(8, 1):uint()
  if length < HEAD or length > LIMIT or KINDS[kind] == nil then return false end
  if bit.band(buffer(9, 1):uint(), bit.bnot(FLAGS[kind])) ~= 0 then return false end
  local metadata = buffer(10, 2):le_uint()
  if kind ~= CALL and kind ~= REPLY and metadata ~= 0 or metadata > 2048 then return false end
  -- SENDs are padded to four bytes. A message that continues in other packets is longer than this.
  return buffer:reported_len() <= MESSAGE_HEADER + length + 3
end

-- Reads sequentially from an offset, up to the end of the captured bytes.
local function reader(buffer, tree, at, stop)
  local self = {}
  function self.take(size)
    size = math.min(size, stop - at)
    if size <= 0 then return nil end
    at = at + size
    return buffer(at - size, size)
  end
  function self.add(field, size)
    local range = self.take(size)
    if range and range:len() == size then tree:add_le(field, range) end
    return range
  end
  function self.region(label)
    local range = self.take(16)
    if not range or range:len() < 16 then return end
    local group = tree:add(range, label)
    group:add_le(f.address, range(0, 8))
    group:add_le(f.key, range(8, 4))
    group:add_le(f.size, range(12, 4))
  end
  return self
end

local function add_metadata(tree, range)
  if not range then return end
  local at = 0
  while at + 3 <= range:len() do
    local name, value = range(at, 1):uint(), range(at + 1, 2):le_uint()
    local size = 3 + name + value
    if name == 0 or at + size > range:len() then return end
    tree:add(f.metadata, range(at, size), range(at + 3, name):string() .. ": " .. (value > 0 and range(at + 3 + name, value):string() or ""))
    at = at + size
  end
end

local function add_call(tree, from, flags, metadata)
  local method = from.take(8)
  if not method or method:len() < 8 then return "" end
  local name = names[method:le_uint64():tohex()]
  tree:add_le(f.method, method)
  if name then tree:add(f.method_name, method, name) end
  from.add(f.timeout, 8)
  from.add(f.schema, 4)
  from.add(f.window, 4)
  if bit.band(flags, OFFERED) ~= 0 then from.region("Offered: the server reads the argument here") end
  if bit.band(flags, LENT) ~= 0 then from.region("Lent: the server may write the result here") end
  add_metadata(tree, from.take(metadata))
  return " " .. (name or "0x" .. method:le_uint64():tohex())
end

local function add_reply(tree, from, flags, metadata)
  local head = from.take(8)
  if not head or head:len() < 8 then return "" end
  tree:add(f.status, head(0, 1))
  if bit.band(flags, WRITTEN) ~= 0 then
    local written = from.take(8)
    if written and written:len() == 8 then tree:add_le(f.result, written(0, 4)) end
  end
  add_metadata(tree, from.take(metadata))
  local message = from.take(head(2, 2):le_uint())
  if message then tree:add(f.message, message) end
  local details = from.take(head(4, 2):le_uint())
  if details then tree:add(f.details, details) end
  return " " .. (CODES[head(0, 1):uint()] or "?") .. (message and ": " .. message:string() or "")
end

-- Dissects one frame from `at` to `stop`, as far as it was captured. Returns a short summary.
local function add_frame(buffer, tree, at, stop)
  local kind, flags = buffer(at, 1):uint(), buffer(at + 1, 1):uint()
  tree:add(f.kind, buffer(at, 1))
  local group = tree:add(f.flags, buffer(at + 1, 1))
  for _, flag in ipairs({f.offered, f.lent, f.written, f.last, f.more, f.refused, f.empty}) do group:add(flag, buffer(at + 1, 1)) end
  tree:add_le(f.call, buffer(at + 4, 4))
  local from = reader(buffer, tree, at + HEAD, stop)
  local text = ""
  if kind == CALL then
    text = add_call(tree, from, flags, buffer(at + 2, 2):le_uint())
  elseif kind == REPLY then
    text = add_reply(tree, from, flags, buffer(at + 2, 2):le_uint())
  elseif kind == WINDOW then
    from.add(f.window, 4)
    from.take(4)
  end
  local body = from.take(LIMIT)
  if body then tree:add(f.body, body) end
  return string.format("%s 0x%08x%s", KINDS[kind] or "?", buffer(at + 4, 4):le_uint(), text)
end

-- Dissects packed frames, each preceded by its length. Frames that start in later packets are not shown.
local function add_pack(buffer, tree, at, stop)
  tree:add(f.kind, buffer(at, 1))
  tree:add_le(f.call, buffer(at + 4, 4))
  at = at + HEAD
  local words = {}
  while at + PACKED_HEAD + HEAD <= stop do
    local size = buffer(at, 2):le_uint()
    local last = math.min(at + PACKED_HEAD + size, stop)
    if size < HEAD then break end
    local group = tree:add(buffer(at, last - at), "Frame")
    local text = add_frame(buffer, group, at + PACKED_HEAD, last)
    group:append_text(", " .. text)
    words[#words + 1] = text
    at = last
  end
  return "PACK: " .. table.concat(words, "; ")
end

function rpc.dissector(buffer, packet, root)
  local length = buffer(4, 4):le_uint()
  local stop = math.min(MESSAGE_HEADER + length, buffer:len())
  local tree = root:add(rpc, buffer(0, stop))
  tree:add_le(f.credits, buffer(2, 2))
  tree:add_le(f.length, buffer(4, 4))
  local add = buffer(MESSAGE_HEADER, 1):uint() == PACK and add_pack or add_frame
  local text = add(buffer, tree, MESSAGE_HEADER, stop)
  tree:append_text(", " .. text)
  packet.cols.protocol = "RRDMA RPC"
  packet.cols.info:append("  " .. text)
  return buffer:len()
end

rpc:register_heuristic("infiniband.payload", function(buffer, packet, root)
  if not is_frame(buffer) then return false end
  rpc.dissector(buffer, packet, root)
  return true
end)
