-- Adds an entry unless it was added before, and remembers that it was.
-- KEYS: the stream, the memory. ARGV: the memory's life in ms, the longest length or '', the fields.
-- The memory is written first: if it may not be written, nothing has been added yet.
local remembered = redis.call('SET', KEYS[2], '', 'NX', 'PX', ARGV[1])
if not remembered then
    return {redis.call('GET', KEYS[2]), 1}
end
local add = {'XADD', KEYS[1]}
if ARGV[2] ~= '' then
    add[#add + 1] = 'MAXLEN'
    add[#add + 1] = '~'
    add[#add + 1] = ARGV[2]
end
add[#add + 1] = '*'
for i = 3, #ARGV do
    add[#add + 1] = ARGV[i]
end
local added = redis.pcall(unpack(add))
if type(added) == 'table' and added.err then
    redis.call('DEL', KEYS[2])
    return added
end
redis.call('SET', KEYS[2], added, 'PX', ARGV[1])
return {added, 0}
