// Shows the step at which the slider stands: the pictures are copied out of the film, which is one long array.
const moments = film.data.captions.length
const index = Math.min(Math.round(slider.value / slider.step), moments - 1)
for (const name of ["screen", "saliency"]) {
    const picture = shown.data[name][0]
    const whole = film.data[name]
    picture.set(new Uint8Array(whole.buffer, whole.byteOffset + index * picture.length, picture.length))
}
shown.change.emit()
marker.location = index * slider.step
caption.text = film.data.captions[index]
