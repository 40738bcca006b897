// The choices of the parts that are words: the configuration, and the command that is copied.

function listen(id, event, change) {
  const element = document.getElementById(id);
  if (element) element.addEventListener(event, () => change(element));
}

function addSettings() {
  const toggle = (name, isOn) => document.getElementById('settings').classList.toggle(name, isOn);
  listen('show-unset', 'change', box => toggle('hide-unset', !box.checked));
  listen('only-differences', 'change', box => toggle('only-differences', box.checked));
}

// Where the browser lets no page copy, the text is selected, for the reader to copy.
function addCopying() {
  for (const button of document.querySelectorAll('button.copy')) {
    const code = button.previousElementSibling;
    button.addEventListener('click', async () => {
      getSelection().selectAllChildren(code);
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = 'copied';
        getSelection().removeAllRanges();
      } catch {
        button.textContent = 'selected';
      }
    });
  }
}

// A page of a run that goes on loads itself again, but never while it is out of sight or the reader is busy with it.
function addReload(choices) {
  const seconds = Number(document.body.dataset.reload || 0);
  if (seconds <= 0) return;
  const isBusy = () => document.hidden || choices.isDragging || Date.now() - choices.movedAt < 3000 ||
      String(getSelection()) !== '' || document.querySelector('details[open]');
  const again = () => {
    if (isBusy())
      setTimeout(again, 500);
    else
      location.reload();
  };
  setTimeout(again, 1000 * seconds);
}
