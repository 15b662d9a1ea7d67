-- parallel_test.lua -- scripts/lessons/parallel_check.lua under the name that the course gives it
local folder = arg[0]:match '^(.*[/\\])' or ''
dofile(folder .. 'parallel_check.lua')
