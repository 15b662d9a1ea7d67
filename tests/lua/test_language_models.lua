-- test_language_models.lua -- scripts/gpt2.lua with models of transformers: logits, fine-tuning, saving
local t = require 'testing'

local tests = (arg[0]:match('^(.*/)') or './') .. '../'
local program, script, data = arg[-1], tests .. '../scripts/gpt2.lua', tests .. 'data/'

--- Runs the script; returns its output, with errors.
local function run(...)
  local pipe = io.popen(("'%s' '%s' %s 2>&1"):format(program, script, table.concat({...}, ' ')))
  local text = pipe:read('*a')
  pipe:close()
  return text
end

local folder = os.tmpname()
os.remove(folder)

for _, kind in ipairs{'gpt2', 'llama'} do
  local model = data .. kind
  local expected = model .. '/expected.safetensors'
  t.test(kind .. ': the logits are those of transformers, with the cache too', function()
    local text = run('--model', model, '--check', expected)
    local off = tonumber(text:match('final: logits_difference=(%S+)'))
    assert(off and off < 1e-4, text)
    assert(run('--model', model, '--check', expected, '--target', '1e-12'):find('the logits differ by'), 'no error')
  end)
  t.test(kind .. ': writes, trains, and saves what it reads again', function()
    local written = run('--model', model, '--prompt', "'the old dog'", '--sample', '5', '--temperature', '0')
    assert(written:find('the old dog') and written:find('final: tokens=5 '), written)
    local text = run('--model', model, '--tune', script, '--steps 20 --length 16 --rate 1e-2 --sample 2')
    local last, first = text:match('loss=(%S+) loss_before=(%S+)')
    assert(last and tonumber(last) < tonumber(first), text)
    local saved = run('--model', model, '--tune', script, '--steps 1 --length 8 --rate 0 --sample 1 --save', folder)
    assert(saved:find('saved: ' .. folder, 1, true), saved)
    local again = run('--model', folder, '--check', expected)
    assert(tonumber(again:match('logits_difference=(%S+)') or 1) < 1e-4, again)
  end)
end

t.test('a missing file is one sentence', function()
  assert(run():find('^gpt2: %-%-model names a folder'), run())
  for flags, sentence in pairs{['--model ' .. data] = "config.json' cannot be opened",
    ['--model /nope'] = "'/nope/config.json' cannot be opened",
    ['--model ' .. data .. 'gpt2 --tune /nope'] = "'/nope' cannot be opened",
    ['--temperature -1'] = '--temperature must be a number from 0, got -1', ['--steps 0'] = '--steps must be'} do
    local text = run(flags)
    assert(text:find(sentence, 1, true) and text:find '^[^\n]*gpt2[^\n]*\n$', text)
  end
end)

for _, name in ipairs{'model.safetensors', 'config.json', 'tokenizer.json'} do os.remove(folder .. '/' .. name) end
os.remove(folder)
t.finish()
