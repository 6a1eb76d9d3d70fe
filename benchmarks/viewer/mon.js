// A Pokémon and its hit points.

const points = (share) => el('span', { class: 'points', title: `${Math.round(100 * share)} %` },
  el('span', { class: share > 0.5 ? 'fill' : share > 0.2 ? 'fill half' : 'fill low', style: { width: `${100 * share}%` } }));

const hitPoints = (name, share, status, active, boosts) => el('div', { class: ['mon', active ? 'active' : '', share ? '' : 'fainted'].join(' ').trim(), 'data-points': String(share) },
  el('div', null, el('b', null, name), el('span', { class: 'num' }, share ? `${Math.ceil(100 * share)} %` : 'fainted')), points(share),
  el('p', { class: 'zero' }, [status ? `${status} ` : '', boosts.map(([stat, stages]) => `${stages > 0 ? '+' : '−'}${Math.abs(stages)} ${stat}`).join(', ')]));
