-- parallel_test.lua -- runs scripts/lessons/parallel_check.lua, under the name in the course
local folder = arg[0]:match '^(.*[/\\])' or ''
dofile(folder .. 'parallel_check.lua')
