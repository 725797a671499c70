// Models of repositories, and their versions.
function modelsView(root) {
  const body = make('div');
  root.append(body);
  let before = '';
  return async () => {
    const {models} = await call('/api/models');
    const now = JSON.stringify(models) + Math.floor(Date.now() / 15000);
    if (now === before) return;
    before = now;
    const row = version => make('tr', {}, cell(String(version.version), 'left'),
      cell(version.answers ? make('span', {class: 'state good'}, 'answers') : version.withdrawn ? make('span', {class: 'state bad'}, 'withdrawn') : '', 'left'),
      cell(version.kind || '–', 'left'), cell(version.bytes ? bytes(version.bytes) : '–'), make('td', {title: moment(version.published)}, ago(version.published)), cell(version.problem || '', 'left wrap'));
    draw(body, ...(models.length ? models.map(model => make('section', {}, make('h2', {}, model.id, ' ', make('span', {class: 'state ' + (model.served ? 'live' : '')}, model.served ? 'is served' : 'is not served'),
      ...(model.learning ? [' ', make('span', {class: 'state live'}, 'learns')] : [])),
      table([['Version', 'left'], ['', 'left'], ['Kind', 'left'], ['Size'], ['Published'], ['Why', 'left']], make('tbody', {}, ...model.versions.map(row)))))
      : [empty('No models here yet. ', make('code', {}, 'sullae train mnist --export DIR/models'), ' puts one there.')]));
  };
}
