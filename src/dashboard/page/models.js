// Models of repositories, and their versions.
const badge = (text, kind = '') => make('span', {class: 'state ' + kind}, text);
function standOf(version, served) {
  if (version.answers) return served ? badge('answers', 'good') : badge('would answer');
  return version.withdrawn ? badge('withdrawn', 'bad') : '';
}
const versionColumns = served => [
  ['Version', version => String(version.version), 'left'],
  ['', version => standOf(version, served), 'left'],
  ['Kind', version => version.kind || '–', 'left'],
  ['Size', version => version.bytes ? bytes(version.bytes) : '–'],
  ['Published', version => whenAgo(version.published)],
  ['Why', version => version.problem || '', 'left wrap'],
];

function modelsView(root) {
  const modelOf = model => make('section', {},
    make('h2', {}, model.id, ' ', model.served ? badge('is served', 'live') : badge('is not served'), ...where(model.learning, ' ', badge('learns', 'live'))),
    sheet(versionColumns(model.served), model.versions));
  return async () => {
    const {models} = await call('/api/models');
    draw(root, ...models.map(modelOf),
      ...where(!models.length, empty('No models here yet. ', command('sullae train mnist --export DIR/models'), ' puts one there.')));
  };
}
