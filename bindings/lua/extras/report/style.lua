-- style.lua -- the style sheet of mt.report's page: one column, light and dark
return [[
:root{color-scheme:light dark;--page:#f6f7f9;--card:#fff;--text:#1f2937;--soft:#6b7280;
--line:#e5e7eb;--accent:#0072b2}
@media(prefers-color-scheme:dark){:root{--page:#0b0f17;--card:#111827;--text:#e5e7eb;--soft:#9ca3af;
--line:#263041;--accent:#58aeea}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,Helvetica,Arial,sans-serif}
main{max-width:820px;margin:0 auto;padding:40px 20px 64px}
h1{font-size:26px;line-height:1.25;margin:0 0 4px;letter-spacing:-.01em;overflow-wrap:anywhere}
h2{font-size:13px;font-weight:600;letter-spacing:.05em;text-transform:uppercase;
color:var(--soft);margin:36px 0 10px}
.when{color:var(--soft);margin:0}
.card{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:14px 18px;
margin:0 0 14px;overflow-x:auto}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(140px,1fr));gap:12px;
margin:24px 0 0}
.tile{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:12px 16px}
.tile b{display:block;font-size:22px;font-weight:600;font-variant-numeric:tabular-nums}
.tile span{color:var(--soft);font-size:13px}
table{border-collapse:collapse;min-width:min(100%,460px);font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:6px 24px 6px 0;border-bottom:1px solid var(--line);
vertical-align:top;overflow-wrap:anywhere}
th:last-child,td:last-child{padding-right:0}
th{color:var(--soft);font-weight:500;overflow-wrap:normal;hyphens:none}
thead th{white-space:nowrap}tr:last-child>*{border-bottom:0}
.n{text-align:right;white-space:nowrap}.cut td{color:var(--soft);text-align:center}
pre{margin:0;font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;overflow-x:auto}
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,360px),1fr));gap:14px;margin:0 0 14px}
.grid>.card{margin:0;padding:10px 12px;min-width:0}
@media(min-width:1000px){main{max-width:1080px}}
.grid>.card table{min-width:100%}
svg{display:block;width:100%;height:auto;margin:0 auto}
p{margin:0 0 10px}p:last-child{margin:0}
@media(max-width:480px){main{padding:24px 12px 40px}.card{padding:10px 12px}th,td{padding-right:8px;font-size:14px}}
@media print{body{background:none}.card,.tile{break-inside:avoid}}
]]
