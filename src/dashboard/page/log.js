// A log that is read on as it grows.
class Log {
  // `path` answers pieces of it.
  constructor(path) {
    this.path = path;
    this.end = -1;
    this.kept = 0;  // letters
    this.begins = [];  // of the pieces, in bytes of the file
    this.before = make('span');
    this.root = make('pre', {class: 'log', tabindex: 0, 'aria-label': 'log'});
  }

  async update() {
    for (;;) {
      const piece = await call(this.path + (this.end < 0 ? '' : '&from=' + this.end));
      const follows = this.root.scrollTop + this.root.clientHeight >= this.root.scrollHeight - 20;
      this.append(piece);
      const grew = piece.end > this.end;
      this.end = piece.end;
      if (follows) this.root.scrollTop = this.root.scrollHeight;
      if (!grew || piece.size === piece.end) return;
    }
  }

  append(piece) {
    const most = 2e6;
    if (piece.begin !== this.end) {
      this.root.replaceChildren(this.before);
      this.kept = 0;
      this.begins = [];
    }
    // Colours of a terminal.
    if (piece.text) {
      this.root.append(piece.text.replace(/\x1b\[[0-9;]*m/g, ''));
      this.begins.push(piece.begin);
    }
    this.kept += piece.text.length;
    while (this.kept > most && this.root.childNodes.length > 2) {
      this.kept -= this.root.childNodes[1].length;
      this.root.childNodes[1].remove();
      this.begins.shift();
    }
    this.before.textContent = this.begins[0] > 0 ? `… ${bytes(this.begins[0])} before this\n` : '';
  }
}
