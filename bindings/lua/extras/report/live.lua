-- live.lua -- the script of a live report: polls each second and replaces changed parts of the page
return [[
<script>
(function () {
  var have = 0, state = document.getElementById('state'), heard = Date.now();
  function say() {
    var old = Math.round((Date.now() - heard) / 1000);
    state.textContent = document.body.dataset.state === 'finished' ? 'finished' :
      old < 4 ? 'live' : 'no answer for ' + old + ' s: the program computes, or has ended';
    if (old >= 4) document.body.dataset.lost = 1; else delete document.body.dataset.lost;
  }
  function renew(old, now) {
    var a = Array.from(old.children), b = Array.from(now.children);
    b.forEach(function (node, i) {
      if (!a[i]) old.appendChild(node);
      else if (a[i].outerHTML === node.outerHTML) return;
      else if (a[i].tagName === node.tagName && a[i].className === node.className && a[i].id === node.id &&
        /^(SECTION|MAIN)$|grid|tiles/.test(node.tagName + node.className)) renew(a[i], node);
      else a[i].replaceWith(node);
    });
    a.slice(b.length).forEach(function (node) { node.remove(); });
  }
  function ask() {
    fetch('/?have=' + have, {cache: 'no-store'}).then(function (r) {
      heard = Date.now();
      have = r.headers.get('X-Page') || have;
      return r.status === 200 ? r.text() : '';
    }).then(function (text) {
      if (!text) return;
      var page = new DOMParser().parseFromString(text, 'text/html');
      document.title = page.title;
      document.body.dataset.state = page.body.dataset.state;
      renew(document.querySelector('main'), page.querySelector('main'));
      state = document.getElementById('state');
    }).catch(function () {}).then(function () {
      say();
      if (document.body.dataset.state !== 'finished') setTimeout(ask, 1000);
    });
  }
  say();
  ask();
})();
</script>
]]
