//! Real pictures, drawn from a seed: a leaded window of coloured triangles around a rose. Integer arithmetic only, and
//! rows filled by copying, so that a build without optimisation draws quickly too.

use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{ExtendedColorType, ImageEncoder};

/// The size of a picture when the request names none, in pixels.
pub(crate) const DEFAULT_SIZE_PX: (u32, u32) = (512, 384);
/// The smallest and largest width or height, in pixels.
pub(crate) const SIDE_PX: std::ops::RangeInclusive<u32> = 16..=2048;

const COLOURS: usize = 6;
/// How many pixels of a strip share one shade.
const STEP_PX: i64 = 8;
/// cos and sin of 15 degrees, times 65,536.
const TURN: (i64, i64) = (63_303, 16_962);

type Point = (i64, i64);

/// A small generator (SplitMix64, <https://prng.di.unimi.it/splitmix64.c>): the picture needs no better one.
struct Dice(u64);

impl Dice {
    const fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to `bound - 1`.
    fn below(&mut self, bound: i64) -> i64 {
        let bound = u64::try_from(bound).unwrap_or(0).max(1);
        i64::try_from(self.roll() % bound).unwrap_or(0)
    }
}

struct Window {
    width: i64,
    height: i64,
    rgb: Vec<u8>,
    /// One strip of `width + height` pixels per colour; the last one is the lead. A row is copied out of it shifted by
    /// its number, which makes the light fall diagonally.
    strips: Vec<Vec<u8>>,
}

/// Draws the picture of a seed as a PNG. The same arguments always give the same bytes.
///
/// # Errors
/// What the encoder says; it has no reason to.
pub(crate) fn png(seed: u64, width_px: u32, height_px: u32) -> Result<Vec<u8>, image::ImageError> {
    let window = draw(seed, i64::from(width_px), i64::from(height_px));
    let mut bytes = Vec::with_capacity(window.rgb.len() / 8);
    PngEncoder::new_with_quality(&mut bytes, CompressionType::Fast, FilterType::Up).write_image(
        &window.rgb,
        width_px,
        height_px,
        ExtendedColorType::Rgb8,
    )?;
    Ok(bytes)
}

fn draw(seed: u64, width: i64, height: i64) -> Window {
    let mut dice = Dice(seed);
    let size = usize::try_from(width * height * 3).unwrap_or(0);
    let strips = strips(&mut dice, width + height);
    let mut window = Window { width, height, rgb: vec![0; size], strips };
    let (columns, rows) = ((width / 80).clamp(2, 12), (height / 80).clamp(2, 12));
    let corner = corners(&mut dice, (columns, rows), (width, height));
    let at = |column: i64, row: i64| corner[usize::try_from(row * (columns + 1) + column).unwrap_or(0)];
    let mut edges = Vec::new();
    for row in 0..rows {
        for column in 0..columns {
            let [a, b, c, d] =
                [at(column, row), at(column + 1, row), at(column + 1, row + 1), at(column, row + 1)];
            let halves = if dice.below(2) == 0 { [[a, b, c], [a, c, d]] } else { [[a, b, d], [b, c, d]] };
            for half in halves {
                let colour = colour(&mut dice);
                window.fill(&half, colour);
                edges.extend([(half[0], half[1]), (half[1], half[2]), (half[2], half[0])]);
            }
        }
    }
    let lead = (width.min(height) / 160).max(1);
    for (from, to) in edges {
        window.line(from, to, lead);
    }
    window.rose(&mut dice, lead);
    window
}

fn colour(dice: &mut Dice) -> usize {
    usize::try_from(dice.below(i64::try_from(COLOURS).unwrap_or(1))).unwrap_or(0)
}

/// The corners of a grid, all but those on the border moved a little.
fn corners(dice: &mut Dice, (columns, rows): (i64, i64), (width, height): (i64, i64)) -> Vec<Point> {
    let mut corners = Vec::new();
    let (cell_width, cell_height) = (width / columns, height / rows);
    for row in 0..=rows {
        for column in 0..=columns {
            let (mut x, mut y) = (width * column / columns, height * row / rows);
            let (shift_x, shift_y) = (dice.below(cell_width.max(1)), dice.below(cell_height.max(1)));
            if column > 0 && column < columns {
                x += (shift_x - cell_width / 2) * 2 / 3;
            }
            if row > 0 && row < rows {
                y += (shift_y - cell_height / 2) * 2 / 3;
            }
            corners.push((x, y));
        }
    }
    corners
}

/// One strip per colour, with light and shade along it, and the lead.
fn strips(dice: &mut Dice, length: i64) -> Vec<Vec<u8>> {
    let hue = dice.below(1_536);
    let mut strips = Vec::new();
    for number in 0..COLOURS {
        let turn = i64::try_from(number).unwrap_or(0) * 190 + dice.below(120);
        let (full, period) = (hue_rgb((hue + turn) % 1_536), 90 + dice.below(160));
        let pale = 20 + dice.below(90);
        let mut strip = Vec::new();
        for place in 0..length {
            // In steps of a few pixels, which the encoder packs well.
            let place = place - place % STEP_PX;
            let wave = (place % period - period / 2).abs() * 2 * 100 / period;
            for channel in full {
                let tinted = channel + (255 - channel) * pale / 255;
                strip.push(u8::try_from(tinted * (45 + wave / 2) / 100).unwrap_or(u8::MAX));
            }
        }
        strips.push(strip);
    }
    strips.push([22u8, 20, 26].repeat(usize::try_from(length).unwrap_or(0)));
    strips
}

/// A hue from 0 to 1,535 as red, green and blue from 0 to 255.
fn hue_rgb(hue: i64) -> [i64; 3] {
    let (rise, fall) = (hue % 256, 255 - hue % 256);
    match hue / 256 {
        0 => [255, rise, 0],
        1 => [fall, 255, 0],
        2 => [0, 255, rise],
        3 => [0, fall, 255],
        4 => [rise, 0, 255],
        _ => [255, 0, fall],
    }
}

impl Window {
    /// Fills a convex polygon, row by row.
    fn fill(&mut self, polygon: &[Point], colour: usize) {
        let top = polygon.iter().map(|p| p.1).min().unwrap_or(0).max(0);
        let bottom = polygon.iter().map(|p| p.1).max().unwrap_or(0).min(self.height - 1);
        for y in top..=bottom {
            let (mut left, mut right) = (i64::MAX, i64::MIN);
            let mut from = polygon[polygon.len() - 1];
            for &to in polygon {
                if (from.1 <= y && to.1 >= y) || (to.1 <= y && from.1 >= y) {
                    let span = to.1 - from.1;
                    let at = |x: i64, l: &mut i64, r: &mut i64| (*l, *r) = ((*l).min(x), (*r).max(x));
                    if span == 0 {
                        at(from.0, &mut left, &mut right);
                        at(to.0, &mut left, &mut right);
                    } else {
                        at(from.0 + (y - from.1) * (to.0 - from.0) / span, &mut left, &mut right);
                    }
                }
                from = to;
            }
            self.span(y, left.max(0), right.min(self.width - 1), colour);
        }
    }

    fn span(&mut self, y: i64, left: i64, right: i64, colour: usize) {
        let place = |pixel: i64| usize::try_from(pixel * 3).unwrap_or(0);
        if left > right {
            return;
        }
        let (start, end) = (place(y * self.width + left), place(y * self.width + right + 1));
        let from = place(left + y);
        self.rgb[start..end].copy_from_slice(&self.strips[colour][from..from + (end - start)]);
    }

    /// A line of lead, `2 * half + 1` pixels thick or a little more.
    fn line(&mut self, from: Point, to: Point, half: i64) {
        let steep = (to.1 - from.1).abs() > (to.0 - from.0).abs();
        let (dx, dy) = if steep { (half, 0) } else { (0, half) };
        let quad = [
            (from.0 - dx, from.1 - dy),
            (from.0 + dx, from.1 + dy),
            (to.0 + dx, to.1 + dy),
            (to.0 - dx, to.1 - dy),
        ];
        self.fill(&quad, COLOURS);
    }

    /// Twenty-four petals in two rings around the middle.
    fn rose(&mut self, dice: &mut Dice, lead: i64) {
        let middle = (self.width / 2, self.height / 2);
        let radius = self.width.min(self.height) * 3 / 8;
        for (size, petals) in [(radius, 24), (radius / 2, 12)] {
            let mut arm: Point = (size * 65_536, 0);
            let mut from = (middle.0 + size, middle.1);
            let mut lines = Vec::new();
            for _ in 0..petals {
                for _ in 0..24 / petals {
                    arm = (
                        (arm.0 * TURN.0 - arm.1 * TURN.1) / 65_536,
                        (arm.0 * TURN.1 + arm.1 * TURN.0) / 65_536,
                    );
                }
                let to = (middle.0 + arm.0 / 65_536, middle.1 + arm.1 / 65_536);
                let colour = colour(dice);
                self.fill(&[middle, from, to], colour);
                lines.extend([(middle, to), (from, to)]);
                from = to;
            }
            for (from, to) in lines {
                self.line(from, to, lead);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_decodes_and_the_same_seed_gives_the_same_bytes() {
        for (width, height) in [(16, 16), (16, 2048), (2048, 16), (512, 384), (333, 1001)] {
            let bytes = png(7, width, height).unwrap();
            let picture = image::load_from_memory(&bytes).unwrap();
            assert_eq!((picture.width(), picture.height()), (width, height));
            assert_eq!(bytes, png(7, width, height).unwrap());
        }
        assert_ne!(png(1, 64, 64).unwrap(), png(2, 64, 64).unwrap());
    }

    #[test]
    fn it_has_many_colours_and_reaches_every_corner() {
        let window = draw(3, 512, 384);
        let colours: std::collections::HashSet<&[u8]> = window.rgb.chunks(3).collect();
        assert!(colours.len() > 200, "{} colours", colours.len());
        let bare = window.rgb.chunks(3).filter(|pixel| **pixel == [0, 0, 0]).count();
        assert!(bare < 20, "{bare} pixels were left bare");
    }
}
