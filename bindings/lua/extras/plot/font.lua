-- font.lua -- A font of strokes for figures as pixels: ASCII, letters with accents, Greek, signs of formulas.
--
-- A glyph is its width and its strokes: lists of points of two characters each: x from 0 to 9, and y, of which
-- 4 is the baseline, C the height of small letters, G that of capitals, 0 the lowest.
local glyphs = {
  ['0'] = '8 24070D2G6G8D876424', ['1'] = '4 0D3G34', ['2'] = '8 0D2G6G8D8B0484',
  ['3'] = '8 0E2G6G8E8C6A3A 6A8886642406', ['4'] = '8 646G0787', ['5'] = '8 7G1G0B2C6C8A86642406',
  ['6'] = '8 7F5G3G0C07246486896B2B09', ['7'] = '8 0G8G34', ['8'] = '8 2A0C0E2G6G8E8C6A2A 2A0806246486886A',
  ['9'] = '8 153454888D6G2G0E0B29698B', A = '8 044G84 1878', B = '8 040G5G7E7C5A0A 5A88866404',
  C = '8 8E6G2G0D07246486', D = '8 040G5G8D875404', E = '7 7G0G0474 0A5A', F = '7 7G0G04 0A5A',
  G = '8 8E6G2G0D072464868A5A', H = '8 040G 848G 0A8A', I = '0 0G04', J = '6 6G66442406',
  K = '8 040G 8G09 2B84', L = '7 0G0474', M = '8 040G4A8G84', N = '8 040G848G', O = '8 24070D2G6G8D876424',
  P = '8 040G6G8E8C6A0A', Q = '8 24070D2G6G8D876424 5784', R = '8 040G6G8E8C6A0A 4A84',
  S = '8 8E6G2G0E0C2A6A8886642406', T = '8 0G8G 4G44', U = '8 0G072464878G', V = '8 0G448G', W = '9 0G245C749G',
  X = '8 0G84 8G04', Y = '8 0G4A8G 4A44', Z = '8 0G8G0484', a = '7 0B2C5C7A74 78280705245475',
  b = '7 0G04 0A2C5C7A76542406', c = '7 7A5C2C0A06245476', d = '7 7G74 7A5C2C0A06245476',
  e = '7 08787A5C2C0A06245476', f = '4 4G3G1E14 0C4C', g = '7 7C72502011 7A5C2C0A06245476',
  h = '7 0G04 0A2C5C7A74', i = '0 0C04 0F0G', j = '2 2C221000 2F2G', k = '6 0G04 6C07 2964', l = '0 0G04',
  m = '9 0C04 0A2C3C4A44 4A6C7C9A94', n = '7 0C04 0A2C5C7A74', o = '7 24060A2C5C7A765424',
  p = '7 0C00 0A2C5C7A76542406', q = '7 7C70 7A5C2C0A06245476', r = '4 0C04 0A2C4C',
  s = '6 6B4C2C0B0928486765442405', t = '4 1G162444 0C4C', u = '7 0C06245476 7C74', v = '6 0C346C',
  w = '8 0C244A648C', x = '6 0C64 6C04', y = '6 0C34 6C2000', z = '6 0C6C0464', ['.'] = '2 1415252414',
  [','] = '2 2502', [':'] = '2 1415252414 1B1C2C2B1B', [';'] = '1 1B1C 1502', ['-'] = '5 0858',
  ['+'] = '8 0888 4C44', ['='] = '8 0A8A 0686', ['_'] = '8 0282', ['/'] = '6 026G', ['\\'] = '6 0G62',
  ['('] = '2 2H0D0722', [')'] = '2 0H2D2702', ['['] = '3 3G0G0333', [']'] = '3 0G3G3303',
  ['{'] = '3 3G2F2B0A292433', ['}'] = '3 0G1F1B3A191403', ['<'] = '7 7C0874', ['>'] = '7 0C7804',
  ['|'] = '0 0G02', ['!'] = '0 0G08 0504', ['?'] = '7 0E2G5G7E7C4A48 4544',
  ['%'] = '9 8G14 1G0E1C2E1G 8876848688', ['#'] = '8 3G14 7G54 0C8C 0888', ['&'] = '8 840E2G4E06244488',
  ['*'] = '6 3D37 0B69 6B09', ["'"] = '0 0G0D', ['"'] = '3 0G0D 3G3D', ['@'] = '8 6B4B295767698B8E6G2G0D072464',
  ['~'] = '8 082A688A', ['^'] = '6 0C3G6C', ['$'] = '8 8E6G2G0E0C2A6A8886642406 4H43', ['`'] = '2 0G2D',
  ['×'] = '6 0A64 6A04', ['÷'] = '8 0888 4C4D 4443', ['±'] = '8 0A8A 4E46 0484', ['·'] = '2 1819292818',
  ['°'] = '4 1C0D0F1G3G4F4D3C1C', ['²'] = '4 0E1G3G4E0A4A', ['³'] = '4 0G4G2D4C3A0A', ['¹'] = '2 0E1G1A',
  ['≤'] = '7 7E0A76 0474', ['≥'] = '7 0E7A06 0474', ['≈'] = '8 0A2C6A8C 06286688', ['≠'] = '8 0A8A 0686 6D23',
  ['‖'] = '3 0G02 3G32',
  ['→'] = '9 0898 6B9865', ['←'] = '9 0898 3B0835', ['∞'] = '8 492B1B0A081727496B7B8A88776749',
  ['√'] = '9 0929446G9G', ['∂'] = '7 1E2G4G6E7A76542406082A5A78', ['∇'] = '8 0G8G440G',
  ['€'] = '8 8E6G3G1D17346486 0B5B 0959', ['ß'] = '7 040E1G4G6E6C4A 3A5A7876543444',
  ['ø'] = '7 24060A2C5C7A765424 007G', ['Ø'] = '8 24070D2G6G8D876424 038H', ['ł'] = '4 2G24 084C',
  ['Ł'] = '7 0G0474 084C', ['ı'] = '4 2C24',
  ['α'] = '8 8C654424060A2C4C6B84', ['β'] = '7 000E1G4G6E6C4A1A 4A7876541405', ['γ'] = '7 0B1C2B4540 7C45',
  ['δ'] = '7 6G2G1F1E5B7876542406082A5A', ['ε'] = '6 6B4C2C0A2848 2806244465', ['ζ'] = '6 1G6G090624545241',
  ['η'] = '7 0C04 0A2C5C7A70', ['θ'] = '7 24070D2G5G7D775424 0A7A', ['ι'] = '1 0C0514', ['κ'] = '6 0C04 6C08 2A64',
  ['λ'] = '7 0G1G74 4A04', ['μ'] = '8 0C00 06245476 7C7484', ['ν'] = '6 0C346C', ['ξ'] = '6 6G2G1E2C5C 2C0A0725555342',
  ['π'] = '8 0C8C 2C24 6C6574', ['ρ'] = '7 000A2C5C7A76542406', ['σ'] = '8 8C2C0A062454767A5C',
  ['τ'] = '7 0C7C 3C354464', ['υ'] = '7 0C062454767A6C', ['φ'] = '8 24060A2C6C8A866424 4E40', ['χ'] = '7 0C1C6070 7C00',
  ['ψ'] = '8 0C062464868C 4E40', ['ω'] = '8 1C0A06143446 4A465474868A7C', ['Γ'] = '7 040G7G', ['Δ'] = '8 044G8404',
  ['Θ'] = '8 24070D2G6G8D876424 2A6A', ['Λ'] = '8 044G84', ['Ξ'] = '8 0G8G 1A7A 0484', ['Π'] = '8 040G8G84',
  ['Σ'] = '7 7G0G4A0474', ['Φ'] = '8 26080C2E6E8C886626 4G44', ['Ψ'] = '8 0G0B29698B8G 4G44',
  ['Ω'] = '8 043436090D2G6G8D89565484',
}

-- Signs that look like others.
local alike = {['µ'] = 'μ', ['…'] = '...', ['–'] = '-', ['—'] = '-', ['−'] = '-', ['“'] = '"', ['”'] = '"',
  ['„'] = '"', ['‘'] = "'", ['’'] = "'", ['æ'] = 'ae', ['œ'] = 'oe', ['Æ'] = 'AE', ['Œ'] = 'OE', ['∑'] = 'Σ',
  ['∏'] = 'Π', ['∆'] = 'Δ', ['ϵ'] = 'ε', ['ϕ'] = 'φ', ['ς'] = 's', ['ο'] = 'o', ['Α'] = 'A', ['Β'] = 'B', ['Ε'] = 'E',
  ['Ζ'] = 'Z', ['Η'] = 'H', ['Ι'] = 'I', ['Κ'] = 'K', ['Μ'] = 'M', ['Ν'] = 'N', ['Ο'] = 'O', ['Ρ'] = 'P', ['Τ'] = 'T',
  ['Υ'] = 'Y', ['Χ'] = 'X'}

-- What stands above (or below) a letter, x = 4 at its middle; the letters, and what they are with it.
local accents = {
  {'3E5G', 'aeiouycnszAEIOUYCNSZ', 'áéíóúýćńśźÁÉÍÓÚÝĆŃŚŹ'}, {'5E3G', 'aeiouAEIOU', 'àèìòùÀÈÌÒÙ'},
  {'2E4G6E', 'aeiouAEIOU', 'âêîôûÂÊÎÔÛ'}, {'1E3F5E7F', 'anoANO', 'ãñõÃÑÕ'},
  {'2E2F 6E6F', 'aeiouyAEIOUY', 'äëïöüÿÄËÏÖÜŸ'},
  {'3E3G5G5E3E', 'auAU', 'åůÅŮ'}, {'2G4E6G', 'cdenrstzgCDENRSTZG', 'čďěňřšťžğČĎĚŇŘŠŤŽĞ'}, {'4E4F', 'zZI', 'żŻİ'},
  {'444231', 'csaeCSAE', 'çşąęÇŞĄĘ'},
}


local font = {}

local heights = '0123456789ABCDEFGHIJK'
local unit, spacing = 0.058, 2.9 -- of the font's size; in units
local kSign = '[%z\1-\127\194-\244][\128-\191]*'

--- The points of strokes in text, moved by `right` and `up`.
local function read(strokes, right, up, out)
  for stroke in strokes:gmatch '%S+' do
    local points = {}
    for u, v in stroke:gmatch '(.)(.)' do
      points[#points + 1], points[#points + 2] = tonumber(u) + right, heights:find(v, 1, true) - 5 + up
    end
    out[#out + 1] = points
  end
  return out
end

local made = {} -- a glyph is {width=, strokes..}
for sign, text in pairs(glyphs) do made[sign] = read(text:sub(3), 0, 0, {width = tonumber(text:sub(1, 1))}) end
for _, accent in ipairs(accents) do
  local strokes, letters, results = unpack(accent)
  local i = 0
  for sign in results:gmatch(kSign) do
    i = i + 1
    local letter = letters:sub(i, i)
    local text, below = glyphs[letter == 'i' and 'ı' or letter], strokes == '444231'
    local width = tonumber(text:sub(1, 1))
    made[sign] = read(strokes, width / 2 - 4, letter:find '%u' and not below and 4 or 0,
      read(text:sub(3), 0, 0, {width = width}))
  end
end

--- The strokes of a text whose baseline begins at 0, 0, of size 1, y downwards; and its width.
function font.strokes(text)
  local out, x = {}, 0
  for sign in text:gsub(kSign, alike):gmatch(kSign) do
    if sign == ' ' then x = x + 0.3
    else
      local glyph = made[sign] or made['?']
      for _, stroke in ipairs(glyph) do
        local points = {}
        for k = 1, #stroke, 2 do points[k], points[k + 1] = x + stroke[k] * unit, -stroke[k + 1] * unit end
        out[#out + 1] = points
      end
      x = x + (glyph.width + spacing) * unit
    end
  end
  return out, math.max(x - spacing * unit, 0)
end

return font
