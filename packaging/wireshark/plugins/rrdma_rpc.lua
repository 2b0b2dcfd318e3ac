-- A Wireshark dissector for frames of rrdma::rpc (docs/rpc-protocol.md) inside SENDs of RoCE. The package installs it
-- in Wireshark's folder for Lua plugins; otherwise use wireshark -X lua_script:rrdma_rpc.lua. Filter by "rrdma_rpc",
-- "rrdma_rpc.call == 0x10000", "rrdma_rpc.status != 0". Methods are sent as numbers: add the names of yours to the
-- preferences of the protocol (Service/Method, separated by blanks).

local rpc = Proto("rrdma_rpc", "RRDMA RPC")

rpc.prefs.methods = Pref.string("Methods", "", "Paths (Service/Method) whose numbers are shown by name, separated by blanks")

-- lib/rpc/frame_layout.h states these tables; ctest rpc.frames compares them and prints new ones.
-- The layout begins.
local KINDS = {"CALL", "REPLY", "ITEM", "WINDOW", "CANCEL", "GO AWAY", "PART", "PROOF", "PACK", "TAKEN", "KEY", "SEALED", "HEADERS"}
local FLAG_WORDS = {{1, "offered"}, {2, "lent"}, {4, "written"}, {8, "last"}, {16, "more"}, {32, "refused"}, {64, "empty"}, {128, "sealed"}}
-- The valid flags of each kind.
local FLAGS = {131, 165, 217, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
-- The fields between head and body.
local LAYOUTS = {
  [1] = {
    {size = 8, key = "method", label = "Method", show = "hex"},
    {size = 8, key = "timeout", label = "Timeout", show = "number"},
    {size = 4, key = "schema", label = "Schema", show = "hex"},
    {size = 4, key = "window", label = "Window", show = "number"},
    {size = 16, key = "offered", label = "Offered", show = "region", flag = 1},
    {size = 8, key = "seal", label = "Seal", show = "number", flag = 128},
    {size = 16, key = "lent", label = "Lent", show = "region", flag = 2},
    {part = "metadata", key = "metadata", label = "Metadata", show = "pairs"},
  },
  [2] = {
    {size = 1, key = "status", label = "Status", show = "status"},
    {size = 1},
    {length = "message", size = 2},
    {length = "details", size = 2},
    {size = 2},
    {size = 4, key = "written", label = "Written", show = "number", flag = 4},
    {size = 4, flag = 4},
    {size = 16, key = "offered", label = "Offered", show = "region", flag = 1},
    {size = 8, key = "seal", label = "Seal", show = "number", flag = 128},
    {part = "metadata", key = "metadata", label = "Metadata", show = "pairs"},
    {part = "message", key = "message", label = "Message", show = "text"},
    {part = "details", key = "details", label = "Details", show = "bytes"},
  },
  [3] = {
    {size = 16, key = "offered", label = "Offered", show = "region", flag = 1},
    {size = 8, key = "seal", label = "Seal", show = "number", flag = 128},
  },
  [4] = {
    {size = 4, key = "window", label = "Window", show = "number"},
    {size = 4},
  },
  [10] = {
    {size = 8, key = "address", label = "Address", show = "hex"},
  },
  [13] = {
    {part = "metadata", key = "metadata", label = "Metadata", show = "pairs"},
  },
}
-- The layout ends.
local CALL, REPLY, PACK, HEADERS = 1, 2, 9, 13
local CODES = {
  [0] = "ok", "cancelled", "unknown", "invalid argument", "deadline exceeded", "not found", "already exists", "permission denied",
  "resource exhausted", "failed precondition", "aborted", "out of range", "unimplemented", "internal", "unavailable", "data loss",
  "unauthenticated"}
local MESSAGE_HEADER, HEAD, PACKED_HEAD, LIMIT = 8, 8, 4, 8472

local f = {
  credits = ProtoField.uint16("rrdma_rpc.credits", "Credits"),
  length = ProtoField.uint32("rrdma_rpc.length", "Length"),
  kind = ProtoField.uint8("rrdma_rpc.kind", "Kind", base.DEC, KINDS),
  flags = ProtoField.uint8("rrdma_rpc.flags", "Flags", base.HEX),
  call = ProtoField.uint32("rrdma_rpc.call", "Call", base.HEX),
  method_name = ProtoField.string("rrdma_rpc.method.name", "Method's path"),
  address = ProtoField.uint64("rrdma_rpc.region.address", "Address", base.HEX),
  key = ProtoField.uint32("rrdma_rpc.region.key", "Key", base.HEX),
  size = ProtoField.uint32("rrdma_rpc.region.length", "Length"),
  body = ProtoField.bytes("rrdma_rpc.body", "Body"),
}
local flag_fields = {}
for i, flag in ipairs(FLAG_WORDS) do
  flag_fields[i] = ProtoField.bool("rrdma_rpc.flags." .. flag[2], flag[2]:gsub("^%l", string.upper), 8, nil, flag[1])
  f["flag_" .. flag[2]] = flag_fields[i]
end

-- The ProtoField of an entry of LAYOUTS.
local function field_of(entry)
  local name = "rrdma_rpc." .. entry.key
  if entry.show == "text" or entry.show == "pairs" then return ProtoField.string(name, entry.label) end
  if entry.show == "bytes" then return ProtoField.bytes(name, entry.label) end
  if entry.show == "status" then return ProtoField.uint8(name, entry.label, base.DEC, CODES) end
  return ProtoField["uint" .. 8 * entry.size](name, entry.label, entry.show == "hex" and base.HEX or base.DEC)
end
for _, layout in pairs(LAYOUTS) do
  for _, entry in ipairs(layout) do
    if entry.key and entry.show ~= "region" and not f[entry.key] then f[entry.key] = field_of(entry) end
  end
end
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
  if kind ~= CALL and kind ~= REPLY and kind ~= HEADERS and metadata ~= 0 or metadata > 2048 then return false end
  -- SENDs are padded to four bytes. A message that continues in other packets is longer than this.
  return buffer:reported_len() <= MESSAGE_HEADER + length + 3
end

-- Takes bytes sequentially from an offset, up to the end of the captured ones.
local function reader(buffer, at, stop)
  local self = {}
  function self.take(size)
    size = math.min(size, stop - at)
    if size <= 0 then return nil end
    at = at + size
    return buffer(at - size, size)
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

local function add_region(tree, range, label)
  if range:len() < 16 then return end
  local group = tree:add(range, label)
  group:add_le(f.address, range(0, 8))
  group:add_le(f.key, range(8, 4))
  group:add_le(f.size, range(12, 4))
end

-- Adds the fields of one kind. Returns the bytes of each by its key.
local function add_fields(tree, from, kind, flags, metadata)
  local seen, lengths = {}, {metadata = metadata}
  for _, entry in ipairs(LAYOUTS[kind] or {}) do
    if not entry.flag or bit.band(flags, entry.flag) ~= 0 then
      local size = entry.size or lengths[entry.part] or 0
      local range = from.take(size)
      local whole = range and range:len() == size
      if entry.length then
        lengths[entry.length] = whole and range:le_uint() or 0
      elseif range and entry.show == "region" then
        add_region(tree, range, entry.label)
      elseif range and entry.show == "pairs" then
        add_metadata(tree, range)
      elseif range and entry.part then
        tree:add(f[entry.key], range)
      elseif whole and entry.key then
        tree:add_le(f[entry.key], range)
      end
      if entry.key and (whole or entry.part) then seen[entry.key] = range end
    end
  end
  return seen
end

-- A few words for the summary.
local function summary_of(tree, kind, seen)
  if kind == CALL and seen.method then
    local number = seen.method:le_uint64():tohex()
    if names[number] then tree:add(f.method_name, seen.method, names[number]) end
    return " " .. (names[number] or "0x" .. number)
  elseif kind == REPLY and seen.status then
    return " " .. (CODES[seen.status:uint()] or "?") .. (seen.message and ": " .. seen.message:string() or "")
  end
  return ""
end

-- Dissects one frame from `at` to `stop`, as far as it was captured. Returns a short summary.
local function add_frame(buffer, tree, at, stop)
  local kind, flags = buffer(at, 1):uint(), buffer(at + 1, 1):uint()
  tree:add(f.kind, buffer(at, 1))
  local group = tree:add(f.flags, buffer(at + 1, 1))
  for _, flag in ipairs(flag_fields) do group:add(flag, buffer(at + 1, 1)) end
  tree:add_le(f.call, buffer(at + 4, 4))
  local from = reader(buffer, at + HEAD, stop)
  local text = summary_of(tree, kind, add_fields(tree, from, kind, flags, buffer(at + 2, 2):le_uint()))
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
