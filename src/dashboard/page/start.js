// Which view is shown, and when it is asked for again.
const period = 1000;
let update = null, busy = false, again = false;
let rests = 0;  // looks that are left out, of what is over

const decoded = word => {
  try { return decodeURIComponent(word); } catch { return word; }
};

const views = {
  runs: runsView, run: runView, compare: compareView, jobs: jobsView, job: jobView,
  pipelines: pipelinesView, pipeline: pipelineView, models: modelsView,
};

function open() {
  aborting?.abort();
  aborting = new AbortController();
  const [path, said] = location.hash.replace(/^#\//, '').split('?');
  const [name, ...rest] = path.split('/');
  const words = name === 'runs' ? [said] : rest.map(word => name === 'compare' ? word : decoded(word));
  const view = Object.hasOwn(views, name) ? name : 'runs';
  const section = {run: 'runs', compare: 'runs', job: 'jobs', pipeline: 'pipelines'}[view] || view;
  for (const link of $('nav').children) link.classList.toggle('here', link.dataset.section === section);
  document.title = `Sullae: ${rest.length ? words[0] : section}`;
  const root = make('div');
  $('main').replaceChildren(root);
  update = views[view](root, ...words);
  refresh();
}

async function overview() {
  const found = await call('/api/overview');
  $('folder').textContent = found.folder;
  $('folder').title = 'Sullae ' + found.version;
  for (const name of ['runs', 'pipelines', 'models']) $('count-' + name).textContent = found[name] || '';
  $('nav-jobs').hidden = !found.cluster;
  return found.problems;
}

// One question at a time, whatever is clicked.
async function refresh() {
  if (busy) { again = true; return; }
  busy = true;
  do {
    again = false;
    const asked = update;
    try {
      const problems = await overview();
      rests = await asked() ? 10 : 0;
      const most = 3, left = problems.length - most;
      $('problem').textContent = [...problems.slice(0, most), ...where(left > 0, `and ${left} more`)].join('\n');
    } catch (error) {
      const isGone = error instanceof TypeError && error.message.includes('fetch');
      if (asked === update && error.name !== 'AbortError')
        $('problem').textContent = isGone ? 'The dashboard does not answer.' : error.message;
    }
    if (asked !== update) again = true;
  } while (again);
  busy = false;
}
addEventListener('hashchange', open);
document.addEventListener('visibilitychange', () => { if (!document.hidden) refresh(); });
setInterval(() => { if (!document.hidden && --rests < 0) refresh(); }, period);
open();
