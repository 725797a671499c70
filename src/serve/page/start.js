fetch('/v2').then(r => r.json()).then(server => { $('server').textContent = server.version; });
refresh();
setInterval(refresh, 2000);
