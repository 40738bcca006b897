// Numbers as people read them.

function plain(value) {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e5))
    return value.toExponential(2).replace(/\.?0+e/, 'e').replace('e+', 'e');
  return String(Number(value.toPrecision(4)));
}

// With the prefix of a power of a thousand.
function scaled(value, unit) {
  const prefixes = ['', 'k', 'M', 'G', 'T', 'P'];
  let power = 0;
  while (Math.abs(value) >= 999.5 && power + 1 < prefixes.length) {
    value /= 1000;
    ++power;
  }
  const number = String(Number(value.toPrecision(3)));
  return unit ? `${number} ${prefixes[power]}${unit}` : number + prefixes[power];
}

// A step as an axis has it: no digit is lost.
function shortStep(step) {
  if (step >= 1e6 && step % 1e4 === 0) return `${step / 1e6}M`;
  return step >= 1e4 && step % 100 === 0 ? `${step / 1e3}k` : String(step);
}

function shortTime(seconds) { return Math.abs(seconds) < 1 ? `${plain(1000 * seconds)} ms` : `${plain(seconds)} s`; }

function clockTime(seconds) {
  const whole = Math.round(seconds);
  const two = number => String(number).padStart(2, '0');
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor(whole / 60) % 60;
  return hours > 0 ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}

const FORMATS = {
  number: plain,
  count: value => scaled(value, ''),
  bytes: value => scaled(value, 'B'),
  time: shortTime,
  clock: clockTime,
  percent: value => `${plain(100 * value)} %`,
};
