// Moves the slider on until the game is over or the button is up.
const STEPS_PER_SECOND = 15 // 60 frames a second, four in a step
const button = cb_obj
const step = () => {
    if (button.active && slider.value < slider.end) {
        slider.value = Math.min(slider.value + slider.step, slider.end)
        setTimeout(step, 1000 * slider.step / STEPS_PER_SECOND)
    } else {
        button.active = false
    }
}
button.label = button.active ? "❚❚ Pause" : "▶ Play"
if (button.active) {
    if (slider.value >= slider.end) {
        slider.value = slider.start
    }
    step()
}
